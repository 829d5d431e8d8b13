"""Files that lead every Python of a trial to hotlap, whatever its environment.

A `.pth` file in each `site-packages`, put into the trial's layer and seen nowhere else, does in a
process what the environment does otherwise: `env -i`, a replaced PYTHONPATH and `python -I` are
reached as well. Only `python -S` and Pythons that were not found are not.
"""

import glob
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

NAME = "hotlap-trial.pth"
_SITES = (
    "lib*/python3*/site-packages",
    "lib/python3*/dist-packages",
    "local/lib/python3*/dist-packages",
)
_NAMED = re.compile(r"[^\s'\";|&()]*/python[\d.]*(?=[\s'\"]|$)")
_ENVIRONMENTS = ("VIRTUAL_ENV", "CONDA_PREFIX")


def reach_files(
    command: Sequence[str], boot: Path, env: Mapping[str, str], before: Mapping[str, str]
) -> dict[str, str]:
    """The text of each file by its path.

    Args:
        command: what the trial runs; the Python that it names is found first.
        boot: the folder of hotlap's `sitecustomize`.
        env: the trial's environment.
        before: the user's own environment; what is not in it is set by the files.
    """
    added = {k: v for k, v in env.items() if before.get(k) != v and k != "PYTHONPATH"}
    set_all = f"[os.environ.setdefault(*pair) for pair in {tuple(added.items())!r}]"
    find = f"{str(boot)!r} in sys.path or sys.path.insert(0, {str(boot)!r})"
    text = f"import os, sys; {set_all}; {find}\n"
    return {str(site / NAME): text for site in sites(command)}


def sites(command: Sequence[str]) -> list[Path]:
    """The `site-packages` of the Pythons that the command may start."""
    found: dict[Path, None] = {}
    for prefix in dict.fromkeys(_prefixes(command)):
        for pattern in _SITES:
            found |= dict.fromkeys(path.resolve() for path in _below(prefix, pattern))
    return list(found)


def _prefixes(command: Sequence[str]) -> Iterator[Path]:
    yield Path(sys.prefix)
    yield from (Path(os.environ[name]) for name in _ENVIRONMENTS if os.environ.get(name))
    for program in _programs(command):
        yield from (path.parent.parent for path in (program, program.resolve()))
    yield from (config.parent for config in _below(Path.cwd(), "*/pyvenv.cfg"))
    conda = os.environ.get("CONDA_EXE")
    if conda:
        yield from _below(Path(conda).parent.parent, "envs/*")
    yield from _below(Path.home(), ".pyenv/versions/*")


def _programs(command: Sequence[str]) -> Iterator[Path]:
    named = shutil.which(command[0])
    if named is not None:
        yield Path(named)
        yield from _interpreter(Path(named))
    yield from map(Path, _NAMED.findall(" ".join(command)))  # also inside `sh -c "..."`
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if folder:
            yield from _below(Path(folder), "python")
            yield from _below(Path(folder), "python3")


def _below(folder: Path, pattern: str) -> Iterator[Path]:
    """Unlike `Path.glob` it passes over folders that may not be read, as PATH has them at times."""
    yield from map(Path, glob.glob(os.path.join(glob.escape(str(folder)), pattern)))


def _interpreter(script: Path) -> Iterator[Path]:
    """The Python in a script's first line, as in `torchrun`."""
    try:
        with script.open("rb") as file:
            first = file.readline(512)
    except OSError:
        return
    words = os.fsdecode(first).removeprefix("#!").split()
    if first.startswith(b"#!") and words and "python" in words[0]:
        yield Path(words[0])
