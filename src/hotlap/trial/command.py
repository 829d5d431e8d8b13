"""The user's command, as they typed it."""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from hotlap.core.errors import UsageError, did_you_mean
from hotlap.notebook.script import PARTS, SUFFIX, notebook_of, session_part, write_script

PROGRAMS = ("python", "python3", "torchrun", "accelerate", "bash", "uv", "poetry", "deepspeed")
OF_THE_SHELL = frozenset({"cd", "source", "export", "set", "exec", "time"})
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*")
THIS_CELL = PARTS["tune"]
"""Stands for the command where the program is a cell of a live notebook."""
EXECUTE = "jupyter nbconvert --to notebook --execute"
FIRST_CELL = "# in the first cell of a restarted kernel, before torch is imported"
MOST_WORDS = 12
"""Words of a command among which a notebook is looked for."""
INTERPRETER = re.compile(r"python[\d.]*|bash|sh|zsh")


def normalise(words: Sequence[str]) -> tuple[str, ...]:
    """Turn what was typed into what is run.

    `train.py` means `python train.py` unless it is executable itself; one quoted string is split
    as a shell would, if it is no file. A notebook means the script that its code cells make, which
    is written anew.

    Raises:
        UsageError: nothing was given, the program is not there, or the notebook is no program.
    """
    parts = tuple(words)
    if len(parts) == 1 and " " in parts[0].strip() and not Path(parts[0]).is_file():
        parts = _split(parts[0])
    if not parts:
        raise UsageError("no command was given", "for example: hotlap tune python train.py")
    if (at := _notebook_at(parts)) is not None:
        return (*_python_before(parts[:at]), str(write_script(Path(parts[at]))), *parts[at + 1 :])
    if parts[0].endswith(".py") and Path(parts[0]).is_file():
        return (sys.executable, *parts)
    if shutil.which(parts[0]) is None:
        raise _no_command(parts[0])
    if (script := _script(parts)) and not Path(script).exists():
        raise no_file(script)
    return parts


def _notebook_at(parts: Sequence[str]) -> int | None:
    """Where the notebook stands that a command runs, behind `env NAME=VALUE` and a Python."""
    found = (index for index, word in enumerate(parts[:MOST_WORDS]) if word.endswith(SUFFIX))
    at = next(found, None)
    before = parts[:at]
    if at is None or len(before) - len(_assignments(before)) > 1:
        return None
    return at


def _assignments(parts: Sequence[str]) -> Sequence[str]:
    """The `env NAME=VALUE ...` that a command begins with."""
    if not parts or Path(parts[0]).name != "env":
        return ()
    end = next((i for i, w in enumerate(parts[1:], 1) if not ASSIGNMENT.fullmatch(w)), len(parts))
    return parts[:end]


def _python_before(before: Sequence[str]) -> Sequence[str]:
    """What stands in front of a notebook's script: the words, and a Python where they name none."""
    return before if len(before) > len(_assignments(before)) else (*before, sys.executable)


def _split(line: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(line))
    except ValueError:
        hint = "a command needs none around it: hotlap tune python train.py"
        raise UsageError(f"a quote is not closed in {line}", hint) from None


def no_file(name: str) -> UsageError:
    """A script that is not there; one of the same folder may have been meant."""
    path = Path(name)
    near = [str(other) for other in path.parent.glob(f"*{path.suffix}")]
    hint = did_you_mean(name, near, otherwise=f"it is looked for in {Path.cwd()}")
    return UsageError(f"{name}: no such file", hint)


def _script(parts: Sequence[str]) -> str:
    """The file that an interpreter or a launcher is to run; empty where that cannot be told."""
    program = Path(parts[0]).name
    if INTERPRETER.fullmatch(program) and len(parts) > 1:
        return "" if parts[1].startswith("-") else parts[1]
    if program == "torchrun" or tuple(parts[:2]) == ("accelerate", "launch"):
        return next((w for w in parts[1:] if w.endswith(".py") and not w.startswith("-")), "")
    return ""


def _no_command(name: str) -> UsageError:
    """Why a first word is nothing that can be run, and what to give instead."""
    path = Path(name)
    if name.startswith("-"):
        hint = "hotlap's options come before the command; --help lists them"
        return UsageError(f"no such option: {name}", hint)
    if path.is_dir():
        return UsageError(
            f"{name} is a folder", f"give the command of a script: python {path}/train.py"
        )
    if path.is_file():
        hint = f"make it so (chmod +x {name}), or name its interpreter: bash {name}"
        return UsageError(f"{name} is not executable", hint)
    if "/" in name or path.suffix in {".py", ".sh"}:
        return no_file(name)
    return _no_program(name)


def _no_program(name: str) -> UsageError:
    if ASSIGNMENT.fullmatch(name):
        hint = f"set it before hotlap, or as `hotlap VERB env {name} python train.py`"
        return UsageError(f"{name} is an assignment, no command", hint)
    if name in OF_THE_SHELL:
        hint = "run it before hotlap, or give a whole line: bash -c 'cd src && python train.py'"
        return UsageError(f"{name} is a command of the shell itself", hint)
    if name in PROGRAMS:
        return UsageError(f"{name}: no such command", "is it installed in this environment?")
    hint = did_you_mean(name, PROGRAMS, otherwise="give it as you would type it in a shell")
    return UsageError(f"{name}: no such command", hint)


def shown(command: Sequence[str]) -> str:
    """The command on one line, with this Python written as `python`, a notebook by its name.

    The notebook of a live session is what it stands for: `this cell`.
    """
    words = ["python" if word == sys.executable else word for word in command]
    for at, word in enumerate(command[:MOST_WORDS]):
        if word.endswith(".py") and (notebook := notebook_of(word)):
            if part := session_part(notebook):
                return part
            before = words[: max(0, at - 1)]  # without the Python
            return shlex.join((*before, notebook, *words[at + 1 :]))
    return shlex.join(words)


def hotlap_line(verb: str, options: str, line: str) -> str:
    """A command line of hotlap on a program that `shown` names; in a live session a magic."""
    start = "%%hotlap" if line == THIS_CELL else "hotlap"
    program = "" if line == THIS_CELL else line
    return " ".join(filter(None, (start, verb, options, program)))


def run_line(options: str, line: str) -> str:
    """The command line of `hotlap run`; a live session's cell is run by its notebook's name."""
    if line == THIS_CELL:
        line = shlex.quote(Path(os.environ.get("JPY_SESSION_NAME", "NOTEBOOK.ipynb")).name)
    return hotlap_line("run", options, line)


def plain_lines(line: str, assigned: Mapping[str, str]) -> tuple[str, ...]:
    """What to type to run a program that `shown` names, with environment variables set.

    A notebook is no command: its variables are set in its first cell, since OpenMP reads them as
    torch is loaded, or where the whole of it is executed. A live session's cell has but the first.
    """
    variables = " ".join(f"{name}={value}" for name, value in assigned.items())
    magics = (FIRST_CELL, *(f"%env {name}={value}" for name, value in assigned.items()))
    if line == THIS_CELL:
        return magics
    if not _first_word(line).endswith(SUFFIX):
        return (" ".join(filter(None, (variables, line))),)
    whole = " ".join(filter(None, (variables, EXECUTE, line)))
    return (*magics, "# or the whole notebook, in a shell", whole) if assigned else (whole,)


def _first_word(line: str) -> str:
    try:
        return next(iter(shlex.split(line)), "")
    except ValueError:
        return ""


def python_of(command: Sequence[str]) -> str:
    """The Python that a command names, if it names one; else this one."""
    first = Path(command[0]).name
    return command[0] if first.startswith("python") else sys.executable
