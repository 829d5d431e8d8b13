"""A baseline: the findings that are known, so that only new ones are shown.

A finding is recognised by its file, its pattern and the text of its line, wherever the line moves.
"""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from hotlap.core.errors import UsageError
from hotlap.source.lint import Spot

VERSION = 1
Key = tuple[str, str, str]


def write_baseline(file: Path, spots: Iterable[Spot]) -> int:
    """Write the findings as known ones; returns how many.

    Raises:
        UsageError: the file cannot be written.
    """
    counts = Counter(_keys(spots).values())
    entries = [
        {"path": path, "id": id_, "line": line, "count": count}
        for (path, id_, line), count in sorted(counts.items())
    ]
    try:
        text = json.dumps({"version": VERSION, "findings": entries}, indent=1)
        file.write_text(text + "\n", "utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from None
    return sum(counts.values())


def beyond_baseline(file: Path, spots: Iterable[Spot]) -> list[Spot]:
    """The findings that a baseline does not know.

    Raises:
        UsageError: the file is not there, or is no baseline.
    """
    known = _read(file)
    new = []
    for spot, key in _keys(spots).items():
        if known[key]:
            known[key] -= 1
        else:
            new.append(spot)
    return new


def _read(file: Path) -> Counter[Key]:
    try:
        document = json.loads(file.read_text("utf-8"))
        return Counter({(e["path"], e["id"], e["line"]): int(e["count"])
                        for e in document["findings"]})  # fmt: skip
    except FileNotFoundError:
        raise UsageError(f"there is no {file}", "write it with --write-baseline") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{file} is not a baseline: {error}") from None


def _keys(spots: Iterable[Spot]) -> dict[Spot, Key]:
    lines: dict[Path, list[str]] = {}
    found: dict[Spot, Key] = {}
    for spot in spots:
        if spot.path not in lines:
            try:
                lines[spot.path] = spot.path.read_text("utf-8", "replace").splitlines()
            except OSError:
                lines[spot.path] = []
        text = lines[spot.path][spot.line - 1 : spot.line]
        found[spot] = (_relative(spot.path), spot.id, "".join(text).strip())
    return found


def _relative(path: Path) -> str:
    whole = path.resolve()
    return whole.relative_to(Path.cwd()).as_posix() if whole.is_relative_to(Path.cwd()) else str(
        whole)  # fmt: skip
