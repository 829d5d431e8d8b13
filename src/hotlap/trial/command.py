"""The user's command, as they typed it."""

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from hotlap.core.errors import UsageError


def normalise(words: Sequence[str]) -> tuple[str, ...]:
    """Turn what was typed into what is run.

    `train.py` means `python train.py` unless it is executable itself; one quoted string is split
    as a shell would.

    Raises:
        UsageError: nothing was given, or the program is not there.
    """
    parts = tuple(words)
    if len(parts) == 1 and " " in parts[0].strip():
        parts = tuple(shlex.split(parts[0]))
    if not parts:
        raise UsageError("no command was given", "for example: hotlap tune python train.py")
    if parts[0].endswith(".py") and Path(parts[0]).is_file():
        return (sys.executable, *parts)
    if parts[0].startswith("-"):
        hint = "hotlap's options come before the command; --help lists them"
        raise UsageError(f"no such option: {parts[0]}", hint)
    if parts[0].endswith(".py") and not Path(parts[0]).exists():
        raise UsageError(f"{parts[0]}: no such file", f"it is looked for in {Path.cwd()}")
    if shutil.which(parts[0]) is None:
        raise UsageError(f"{parts[0]}: no such command", "give it as you would type it in a shell")
    return parts


def shown(command: Sequence[str]) -> str:
    """The command on one line, with this Python written as `python`."""
    return shlex.join("python" if word == sys.executable else word for word in command)


def python_of(command: Sequence[str]) -> str:
    """The Python that a command names, if it names one; else this one."""
    first = Path(command[0]).name
    return command[0] if first.startswith("python") else sys.executable
