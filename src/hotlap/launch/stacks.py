"""Python stacks as faulthandler writes them, read back and put into words."""

import re
from dataclasses import dataclass
from itertools import takewhile

_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+|\?+) in (?P<name>.*)$')
_OTHERS = ("/site-packages/", "/dist-packages/", "/lib/python", "<frozen ", "<string>")


@dataclass(frozen=True)
class Frame:
    """One line of a stack."""

    file: str
    line: str
    name: str

    @property
    def own(self) -> bool:
        """Whether it is the program's, not a library's."""
        return not any(part in self.file for part in _OTHERS)

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.name}"


Stack = tuple[Frame, ...]


def main_stack(text: str) -> Stack:
    """The frames of the thread that took the signal, which is the main one; innermost first."""
    _, _, rest = text.partition("Current thread")
    section = takewhile(lambda line: line.startswith("  "), rest.splitlines()[1:])
    matches = filter(None, map(_FRAME.match, section))
    return tuple(Frame(**match.groupdict()) for match in matches)


def place(stack: Stack) -> str:
    """Where a program stands: its own innermost line, and the library call it waits in."""
    if not stack:
        return "outside Python"
    own = next((frame for frame in stack if frame.own), stack[-1])
    if own is stack[0]:
        return str(own)
    return f"{own}, waiting in {stack[0].name} ({_short(stack[0].file)}:{stack[0].line})"


def _short(file: str) -> str:
    """A library's file, from its package on."""
    for part in ("/site-packages/", "/dist-packages/"):
        if part in file:
            return file.rsplit(part, maxsplit=1)[-1]
    return file.rsplit("/", 1)[-1]
