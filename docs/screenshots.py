"""Draw the terminal pictures of the documentation from real runs: `make screenshots`.

Each picture is what the command printed on this machine, as SVG text, so that it stays sharp and
can be searched. Nothing in it is edited.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "digits"
IMAGES = Path(__file__).parent / "images"
WIDTH = 90
FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""rich refers to fonts on the web; a picture of the documentation fetches nothing."""
RUNS = {
    "profile": ("profile", "--budget", "10s", "python", "train.py"),
    "lint": ("lint", "--hints", "train.py"),
}


def picture(name: str, words: tuple[str, ...]) -> None:
    """Run hotlap in the example's folder and draw what it printed."""
    command = Path(sys.executable).parent / "hotlap"
    env = {**os.environ, "COLUMNS": str(WIDTH), "PATH": f"{command.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        [str(command), *words], cwd=EXAMPLE, env=env, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    with open(os.devnull, "w") as nowhere:
        drawing = Console(width=WIDTH, record=True, file=nowhere, highlight=False)
        drawing.print(Text(f"$ hotlap {' '.join(words)}", style="bold green"))
        drawing.print(Text(done.stdout.rstrip()))
        IMAGES.mkdir(exist_ok=True)
        target = IMAGES / f"{name}.svg"
        drawn = drawing.export_svg(title=f"hotlap {words[0]}")
        target.write_text(FONT_FACE.sub("", drawn).replace("Fira Code", "ui-monospace"), "utf-8")
    sys.stdout.write(f"{target.relative_to(ROOT)} (exit code {done.returncode})\n")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or RUNS:
        picture(chosen, RUNS[chosen])
