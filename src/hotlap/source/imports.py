"""Which file of a project an import leads to.

Each folder is listed once: a large package has a hundred thousand names to look up.
"""

import os
from collections.abc import Container
from itertools import takewhile
from pathlib import Path

INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Folders of packages that are none of the project's, in whatever folder it has put them."""


class Files:
    """The Python files at and below a root, found by the dotted names of other files."""

    def __init__(self, root: Path, known: Container[Path]) -> None:
        """`known`: the files that are looked at so far."""
        self._root, self._known = root, known
        self._located: dict[tuple[Path, str], Path | None] = {}
        self._starts: dict[Path, list[Path]] = {}
        self._tops: dict[Path, str] = {}
        self._listed: dict[str, frozenset[str]] = {}

    def locate(self, path: Path, dotted: str) -> tuple[Path, str] | None:
        """The file that a dotted name, as used in another file, lies in, and the rest of it."""
        parts = dotted.lstrip(".").split(".")
        dots = "." * (len(dotted) - len(dotted.lstrip(".")))
        for length in range(len(parts), 0, -1):
            if found := self._file(path.parent, dots + ".".join(parts[:length])):
                return found, ".".join(parts[length:])
        if dots and (found := self._file(path.parent, dots)):
            return found, ".".join(parts)
        return None

    def top(self, path: Path) -> str:
        """The first folder below the root on the way to a file."""
        if path.parent not in self._tops:
            folder = path.parent.absolute()
            inside = folder.is_relative_to(self._root)
            parts = folder.relative_to(self._root).parts if inside else ()
            self._tops[path.parent] = parts[0] if parts else ""
        return self._tops[path.parent]

    def _file(self, folder: Path, module: str) -> Path | None:
        key = (folder, module)
        if key not in self._located:
            self._located[key] = self._find(folder, module)
        return self._located[key]

    def _find(self, folder: Path, module: str) -> Path | None:
        dots = len(module) - len(module.lstrip("."))
        parts = [part for part in module.lstrip(".").split(".") if part]
        starts = [folder, *folder.parents][dots - 1 : dots] if dots else self._from(folder)
        for start in starts:
            base = "/".join((str(start), *parts))
            own = f"{base}/__init__.py"
            if not parts:  # a name of the package's own, of use where that is looked at anyway
                return Path(own) if Path(own) in self._known else None
            for file in (f"{base}.py", own):
                if self._exists(file):
                    return Path(file)
        return None

    def _exists(self, file: str) -> bool:
        folder, name = os.path.split(file)
        if folder not in self._listed:
            try:
                with os.scandir(folder or os.curdir) as entries:
                    self._listed[folder] = frozenset(e.name for e in entries if e.is_file())
            except OSError:
                self._listed[folder] = frozenset()
        return name in self._listed[folder]

    def _from(self, folder: Path) -> list[Path]:
        """A folder and those between it and the root, the root included; relative as it is."""
        if folder not in self._starts:
            above = list(folder.parents)
            above += [] if folder.is_absolute() else Path.cwd().parents
            inside = (f for f in above if f.absolute().is_relative_to(self._root))
            own = takewhile(lambda f: f.name not in INSTALLED, inside)
            starts = [folder, *own] if folder.absolute().is_relative_to(self._root) else [folder]
            self._starts[folder] = starts
        return self._starts[folder]
