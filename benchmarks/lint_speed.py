"""How long lint takes on 100,000 lines, on one core: torch's own sources, with every pattern.

`python -m benchmarks.lint_speed [LINES]`. Those files import torch everywhere, so that no file is
passed over. CPU seconds are what counts; they do not depend on what else the machine runs.
"""

import importlib.util
import sys
import time
from pathlib import Path

from benchmarks import record
from hotlap.source.config import Config
from hotlap.source.lint import lint_file


def sources(lines: int) -> list[tuple[Path, bytes]]:
    """Torch's Python files, in order of their path, until there are so many lines."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    found: list[tuple[Path, bytes]] = []
    count = 0
    for path in sorted(Path(spec.origin).parent.rglob("*.py")):
        content = path.read_bytes()
        if b"import torch" in content or b"from torch" in content:
            found.append((path, content))
            count += content.count(b"\n")
        if count >= lines:
            break
    return found


def main(lines: int) -> None:
    """Lint them once, with hints, and write the record."""
    files = sources(lines)
    config = Config(Path(), hints=True)
    cpu, wall = time.process_time(), time.perf_counter()
    counts = [(path.name, len(lint_file(path, content, config))) for path, content in files]
    summary = {
        "lines": sum(content.count(b"\n") for _, content in files),
        "files": len(files),
        "spots": sum(count for _, count in counts),
        "cpu seconds": round(time.process_time() - cpu, 2),
        "wall seconds": round(time.perf_counter() - wall, 2),
    }
    record.write("lint-speed", f"python -m benchmarks.lint_speed {lines}", counts, summary)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
