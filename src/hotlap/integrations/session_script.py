"""The cells of a live session as one script, so that its profile is judged as that of a file.

A kernel compiles each cell under the name of a temporary file that is never written. What was seen
in such a file is moved to the lines of the script, which lint can read as a whole: imports and
classes of earlier cells included.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hotlap.core.protocol import Holder, ProfilePayload, SampledFile
from hotlap.notebook.script import MARK, with_texts

KERNEL_FILE = re.compile(r"(?P<file>[^\s:]*ipykernel_\d+/\d+\.py)(?::(?P<line>\d+))?")


@dataclass(frozen=True)
class SessionScript:
    """A script, and by the name of each cell's file the line of the script above its first one."""

    path: Path
    above: Mapping[str, int]

    def placed(self, payload: ProfilePayload) -> ProfilePayload:
        """What was seen, with lines of the script in the place of those of the kernel's files."""
        sampled: dict[str, SampledFile] = {}
        for file, lines in payload.sampled.items():
            moved, by = self._at(file)
            sampled.setdefault(moved, {}).update({line + by: of for line, of in lines.items()})
        retained = [self._holder(holder) for holder in payload.retained]
        moved_payload: ProfilePayload = with_texts(
            replace(payload, sampled={}, retained=[]), self._text
        )
        return replace(moved_payload, sampled=sampled, retained=retained)

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
