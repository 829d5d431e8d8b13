"""The Python files at and below the given paths."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from hotlap.core.errors import UsageError
from hotlap.notebook.script import SUFFIX
from hotlap.source.config import Config

SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "build", "dist"})


def python_files(paths: Iterable[Path], config: Config) -> Iterator[Path]:
    """Every `.py` file and notebook once, folders in order; hidden and installed ones are left out.

    A file that is named is judged whatever it is called. In folders, links that lead nowhere (as
    editors' lock files do), pipes and sockets are passed over.

    Raises:
        UsageError: a path does not exist, or is neither a file nor a folder.
    """
    seen: set[Path] = set()
    for path in paths:
        if not path.exists():
            raise UsageError(f"there is no file or folder {path}")
        if not (path.is_file() or path.is_dir()):
            raise UsageError(f"{path} is neither a file nor a folder")
        for found in [path] if path.is_file() else _below(path):
            if found not in seen and not config.excludes(found):
                seen.add(found)
                yield found


def _below(folder: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and name not in SKIPPED
            and not Path(where, name, "pyvenv.cfg").exists()
        )
        paths = (Path(where, name) for name in sorted(names) if name.endswith((".py", SUFFIX)))
        yield from (path for path in paths if path.is_file())
