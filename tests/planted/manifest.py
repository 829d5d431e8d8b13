"""The planted workloads: which script, what is wrong in it, and on which line.

The line is where the script carries the comment `# planted`. A `twin` does the same work
without the fault, for a check that the finding goes away.
"""

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
MARK = "# planted"


@dataclass(frozen=True)
class Planted:
    name: str
    script: str
    cause: str | None
    twin: str | None = None

    @property
    def path(self) -> Path:
        return FOLDER / self.script

    @property
    def line(self) -> int | None:
        """The guilty line, counted from 1; None where nothing is planted."""
        lines = self.path.read_text(encoding="utf-8").splitlines()
        marked = [number for number, text in enumerate(lines, 1) if text.endswith(MARK)]
        if len(marked) > 1:
            raise ValueError(f"{self.script}: more than one line ends with `{MARK}`: {marked}")
        return marked[0] if marked else None


PLANTED = [
    Planted("input_bound", "input_bound.py", "data", "input_bound_clean.py"),
    Planted("float64_copy", "float64_copy.py", "float64", "float64_copy_clean.py"),
    Planted("compute_cnn", "compute_cnn.py", "compute"),
    Planted("small_transformer", "small_transformer.py", "overhead"),
    Planted("eval_with_grad", "eval_with_grad.py", "evaluation", "eval_with_grad_clean.py"),
    Planted("clean", "clean.py", None),
]
