"""The user's command, as they typed it."""

import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from hotlap.core.errors import UsageError, did_you_mean
from hotlap.notebook.script import SUFFIX, notebook_of, write_script

PROGRAMS = ("python", "python3", "torchrun", "accelerate", "bash", "uv", "poetry", "deepspeed")
OF_THE_SHELL = frozenset({"cd", "source", "export", "set", "exec", "time"})
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*")
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
    at = next((index for index, word in enumerate(parts[:2]) if word.endswith(SUFFIX)), None)
    if at is not None:
        python = parts[0] if at else sys.executable
        return (python, str(write_script(Path(parts[at]))), *parts[at + 1 :])
    if parts[0].endswith(".py") and Path(parts[0]).is_file():
        return (sys.executable, *parts)
    if shutil.which(parts[0]) is None:
        raise _no_command(parts[0])
    if (script := _script(parts)) and not Path(script).exists():
        raise no_file(script)
    return parts


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
            f"{name} is a folder", f"give a script: hotlap tune python {path}/train.py"
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
    """The command on one line, with this Python written as `python`, a notebook by its name."""
    if len(command) > 1 and (notebook := notebook_of(command[1])):
        return shlex.join((notebook, *command[2:]))
    return shlex.join("python" if word == sys.executable else word for word in command)


def python_of(command: Sequence[str]) -> str:
    """The Python that a command names, if it names one; else this one."""
    first = Path(command[0]).name
    return command[0] if first.startswith("python") else sys.executable
