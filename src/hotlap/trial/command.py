"""The user's command, as they typed it."""

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from hotlap.core.errors import UsageError
from hotlap.notebook.script import SUFFIX, notebook_of, write_script


def normalise(words: Sequence[str]) -> tuple[str, ...]:
    """Turn what was typed into what is run.

    `train.py` means `python train.py` unless it is executable itself; one quoted string is split
    as a shell would. A notebook means the script that its code cells make, which is written anew.

    Raises:
        UsageError: nothing was given, the program is not there, or the notebook is no program.
    """
    parts = tuple(words)
    if len(parts) == 1 and " " in parts[0].strip():
        parts = tuple(shlex.split(parts[0]))
    if not parts:
        raise UsageError("no command was given", "for example: hotlap tune python train.py")
    at = next((index for index, word in enumerate(parts[:2]) if word.endswith(SUFFIX)), None)
    if at is not None:
        python = parts[0] if at else sys.executable
        return (python, str(write_script(Path(parts[at]))), *parts[at + 1 :])
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
    """The command on one line, with this Python written as `python`, a notebook by its name."""
    if len(command) > 1 and (notebook := notebook_of(command[1])):
        return shlex.join((notebook, *command[2:]))
    return shlex.join("python" if word == sys.executable else word for word in command)


def python_of(command: Sequence[str]) -> str:
    """The Python that a command names, if it names one; else this one."""
    first = Path(command[0]).name
    return command[0] if first.startswith("python") else sys.executable
