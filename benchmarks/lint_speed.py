"""How long lint takes on 100,000 lines of torch's own sources, with every pattern.

`python -m benchmarks.lint_speed [LINES]`. The files are copied into a folder of their own and
linted in fresh processes with a fresh cache: once, again unchanged, and again with one file
changed. They import torch and one another: none is passed over, and most are one component. CPU
seconds and the peak of memory of one process count; they do not depend on what else the machine
runs. Then the first files alone, by turns with and without processes ahead
(`hotlap.source.lint_ahead`): a ratio of wall seconds above 1 is one in which these are faster.
"""

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import record

CHILD = """
import json, resource, sys, time
from pathlib import Path
from hotlap.source import lint_ahead
from hotlap.source.config import Config
from hotlap.source.lint import lint
from hotlap.source.lint_cache import LintCache
folder, cache = map(Path, sys.argv[1:3])
lint_ahead.MANY = int(sys.argv[3])
started = time.perf_counter()
found = sum(1 for _ in lint([folder], Config(folder, hints=True), LintCache(cache)))
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"findings": found, "wall seconds": round(time.perf_counter() - started, 2),
                  "cpu seconds": round(used.ru_utime + used.ru_stime, 2),
                  "peak MB": round(used.ru_maxrss / 1024)}))
"""


def copy_sources(folder: Path, lines: int) -> tuple[int, int]:
    """Copy torch's Python files, in order of their path, until there are so many lines."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    origin = Path(spec.origin).parent
    count = files = 0
    for path in sorted(origin.rglob("*.py")):
        content = path.read_bytes()
        if b"import torch" in content or b"from torch" in content:
            target = folder / "torch" / path.relative_to(origin)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            count, files = count + content.count(b"\n"), files + 1
        if count >= lines:
            break
    return count, files


ALONE = 1 << 30
"""More files than there are: no process is started."""
FIRST = (8, 16, 32, 64, 128)
"""How many files are linted with and without processes ahead."""
PAIRS = 5


def run(folder: Path, cache: Path, many: int = ALONE) -> dict[str, Any]:
    """Lint a folder in a process of its own, with processes ahead from so many files on."""
    command = [sys.executable, "-c", CHILD, str(folder), str(cache), str(many)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def ratio_ahead(folder: Path, files: int) -> dict[str, Any]:
    """Wall seconds without over with processes ahead, of the first files of a folder."""
    ratios = []
    with tempfile.TemporaryDirectory() as name:
        few = Path(name, "few")
        for path in sorted(folder.rglob("*.py"))[:files]:
            target = few / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
        for pair in range(PAIRS):
            alone, ahead = (
                run(few, Path(name, f"{pair}-{many}"), many)["wall seconds"] for many in (ALONE, 1)
            )
            ratios.append(round(alone / ahead, 3))
    return {"files": files, "ratios": ratios}


def main(lines: int) -> None:
    """Lint three times, and a few files by turns, and write the record."""
    with tempfile.TemporaryDirectory() as name:
        folder, cache = Path(name, "tree"), Path(name, "cache")
        count, files = copy_sources(folder, lines)
        rows = [{"run": "first", **run(folder, cache)}, {"run": "again", **run(folder, cache)}]
        largest = max(folder.rglob("*.py"), key=lambda path: path.stat().st_size)
        largest.write_bytes(largest.read_bytes() + b"\n# changed\n")
        rows.append({"run": "one file changed", **run(folder, cache)})
        ratios = [ratio_ahead(folder, number) for number in (*FIRST, files)]
    summary = {"lines": count, "files": files, **{row["run"]: row for row in rows}}
    summary |= {f"ahead, {row['files']} files": record.spread(row["ratios"]) for row in ratios}
    rows += ratios
    record.write("lint-speed", f"python -m benchmarks.lint_speed {lines}", rows, summary)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
