"""The cells of a live session as one script, so that its profile is judged as that of a file.

A kernel compiles each cell under the name of a temporary file that is never written. What was seen
in such a file is moved to the lines of the script, which lint can read as a whole: imports and
classes of earlier cells included.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from hotlap.core.protocol import (
    Avoidable,
    Holder,
    Invariant,
    PiledHooks,
    ProfilePayload,
    UnusedRows,
)
from hotlap.notebook.script import MARK, with_texts

Of = TypeVar("Of")
KERNEL_FILE = re.compile(r"(?P<file>[^\s:]*ipykernel_\d+/\d+\.py)(?::(?P<line>\d+))?")


@dataclass(frozen=True)
class SessionScript:
    """A script, and by the name of each cell's file the line of the script above its first one."""

    path: Path
    above: Mapping[str, int]

    def placed(self, payload: ProfilePayload) -> ProfilePayload:
        """What was seen, with lines of the script in the place of those of the kernel's files."""
        moved = replace(
            payload,
            sampled=self._lines(payload.sampled),
            operators_on=self._lines(payload.operators_on),
            retained=[self._holder(holder) for holder in payload.retained],
            invariants=[self._invariant(one) for one in payload.invariants],
            in_vain={name: [*map(self._avoidable, of)] for name, of in payload.in_vain.items()},
            pairs=[self._avoidable(one) for one in payload.pairs],
            unused=[self._unused(one) for one in payload.unused],
            hooks=[self._hooks(one) for one in payload.hooks],
        )
        placed: ProfilePayload = with_texts(moved, self._text)
        return placed

    def _lines(self, files: Mapping[str, Mapping[int, Of]]) -> dict[str, dict[int, Of]]:
        """What is known by file and line; of several cells, under the one name of the script."""
        found: dict[str, dict[int, Of]] = {}
        for file, lines in files.items():
            path, by = self._at(file)
            found.setdefault(path, {}).update({line + by: of for line, of in lines.items()})
        return found

    def _invariant(self, one: Invariant) -> Invariant:
        path, by = self._at(one.path)
        end = one.end_line + by
        return replace(one, path=path, line=one.line + by, since=one.since + by, end_line=end)

    def _avoidable(self, one: Avoidable) -> Avoidable:
        path, by = self._at(one.path)
        return replace(one, path=path, line=one.line + by, since=one.since and one.since + by)

    def _hooks(self, one: PiledHooks) -> PiledHooks:
        path, by = self._at(one.path)
        return replace(one, path=path, line=one.line + by, end_line=one.end_line + by)

    def _unused(self, one: UnusedRows) -> UnusedRows:
        (path, by), (picked, picked_by) = self._at(one.path), self._at(one.picked_path)
        at = one.picked_line and one.picked_line + picked_by
        return replace(one, path=path, line=one.line + by, picked_path=picked, picked_line=at)

    def _at(self, file: str) -> tuple[str, int]:
        """The script and the lines above for a cell's file; any other file as it is."""
        above = self.above.get(_key(file))
        return (file, 0) if above is None else (str(self.path), above)

    def _holder(self, holder: Holder) -> Holder:
        path, by = self._at(holder.path)
        first = holder.function and holder.function + by
        return replace(holder, path=path, function=first)

    def _text(self, text: str) -> str:
        return KERNEL_FILE.sub(self._renamed, text) if "ipykernel_" in text else text

    def _renamed(self, found: re.Match[str]) -> str:
        path, by = self._at(found["file"])
        line = f":{int(found['line']) + by}" if found["line"] else ""
        return f"{path}{line}"


def _key(file: str) -> str:
    """The last two parts of a kernel file's name, which are the same wherever it is seen from."""
    return "/".join(Path(file).parts[-2:])


def session_script(
    path: Path, cells: Iterable[str], file_of: Callable[[str], str]
) -> SessionScript:
    """The script that was written of these cells; `file_of`: the kernel's name for a source."""
    marks = [
        number
        for number, line in enumerate(path.read_text("utf-8").split("\n"), 1)
        if line.startswith(MARK)
    ]
    above: dict[str, int] = {}
    for mark, source in zip(marks, cells, strict=True):
        first, _, body = source.partition("\n")
        parts = [(source, mark)] + ([(body, mark + 1)] if first.startswith("%%") else [])
        for text, line in parts:
            for ended in (text, f"{text}\n"):
                above[_key(file_of(ended))] = line
    return SessionScript(path.resolve(), above)
