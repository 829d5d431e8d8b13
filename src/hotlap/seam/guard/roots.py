"""Which folders a trial may write to: the kept roots, and exceptions below them."""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress

_SYSTEM = ("/dev", "/proc", "/sys", "/run")
_TEMP = ("/tmp", "/var/tmp")
_TEMP_VARIABLES = ("TMPDIR", "TEMP", "TMP")
_CACHE_VARIABLES = (
    "XDG_CACHE_HOME",
    "CUDA_CACHE_PATH",
    "HF_HOME",
    "MPLCONFIGDIR",
    "NUMBA_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR",
    "TORCH_HOME",
    "TRITON_CACHE_DIR",
    "TRITON_HOME",
)
_CACHE_FOLDERS = ("~/.cache", "~/.nv", "~/.triton", "~/.keras", "~/.config/matplotlib")


def default_keep() -> tuple[str, ...]:
    """Folders whose content is made to be written by anyone: devices, temp, caches."""
    named = [os.environ.get(name, "") for name in _TEMP_VARIABLES + _CACHE_VARIABLES]
    folders = [os.path.expanduser(folder) for folder in _CACHE_FOLDERS]
    return (*_SYSTEM, *_TEMP, *filter(None, named), *folders)


class Roots:
    """The longest root that holds a path decides: kept (written for real) or covered."""

    def __init__(self, keep: Iterable[str], cover: Iterable[str]) -> None:
        self._rules = {os.path.realpath(root): True for root in keep}
        self._rules |= {os.path.realpath(root): False for root in cover}

    def kept(self, path: str) -> bool:
        """Whether writes to this canonical path go where they always went."""
        while path:
            rule = self._rules.get(path)
            if rule is not None:
                return rule
            path = path[: path.rfind("/")]
        return self._rules.get("/", False)


def first_folder(scratch: str, kept: Sequence[str]) -> list[str]:
    """Return the folder that the trial's first process started in, on which all agree.

    It is covered though it lie in the temp dir; a kept root itself is not.
    """
    note = f"{scratch}/started-in"
    draft = f"{note}-{os.getpid()}"
    with open(draft, "wb") as file:
        file.write(os.fsencode(os.getcwd()))
    with suppress(FileExistsError):
        os.link(draft, note)
    os.unlink(draft)
    with open(note, "rb") as file:
        folder = os.fsdecode(file.read())
    return [] if folder in {"", "/", *kept} else [folder]
