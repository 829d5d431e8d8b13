"""`[tool.hotlap]` in pyproject.toml: what to leave out of lint."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path

from hotlap.core.errors import UsageError, did_you_mean

_LISTS = ("exclude", "ignore", "select", "extend-select")
_KNOWN = (*_LISTS, "hints", "per-file-ignores")


@dataclass(frozen=True)
class Config:
    """What to judge.

    `select` (empty: all) and `ignore` are pattern ids, of hints too; `exclude` are globs on paths
    relative to `root`; `extend` are hints that are shown in any case; `per_file` maps such globs to
    ids.
    `hints`: also patterns whose cost depends on the workload.
    """

    root: Path = field(default_factory=Path.cwd)
    exclude: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    extend: tuple[str, ...] = ()
    hints: bool = False
    per_file: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def wants(self, name: str, path: Path) -> bool:
        """Whether a pattern is looked for in a file."""
        if name in self.ignore or (self.select and name not in (*self.select, *self.extend)):
            return False
        return not any(
            name in names and self._matches(path, glob) for glob, names in self.per_file.items()
        )

    def excludes(self, path: Path) -> bool:
        """Whether a file is left out."""
        return any(self._matches(path, glob) for glob in self.exclude)

    def _matches(self, path: Path, glob: str) -> bool:
        whole = path.resolve()
        name = str(whole.relative_to(self.root)) if whole.is_relative_to(self.root) else str(whole)
        return fnmatch(name, glob) or fnmatch(name, f"{glob.rstrip('/')}/*")

    def checked(self, known: set[str]) -> "Config":
        """The same; every id must be known.

        Raises:
            UsageError: an id that no pattern has.
        """
        named = {
            *self.ignore,
            *self.select,
            *self.extend,
            *(n for names in self.per_file.values() for n in names),
        }
        for name in sorted(named - known):
            hint = did_you_mean(name, sorted(known), otherwise="`hotlap lint --list` shows all")
            raise UsageError(f"there is no pattern called {name!r}", hint)
        return self


def read_config(start: Path) -> Config:
    """The configuration of the nearest pyproject.toml at or above a folder.

    Raises:
        UsageError: the file is not TOML, or `[tool.hotlap]` holds what is not known.
    """
    for folder in (start.resolve(), *start.resolve().parents):
        file = folder / "pyproject.toml"
        if file.is_file():
            return replace(_parsed(file), root=folder)
    return Config(start.resolve())


def _parsed(file: Path) -> Config:
    try:
        table = tomllib.loads(file.read_text("utf-8")).get("tool", {}).get("hotlap", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not TOML: {error}") from None
    for key in table:
        if key not in _KNOWN:
            raise UsageError(
                f"{file}: [tool.hotlap] knows no {key!r}", f"known: {', '.join(_KNOWN)}"
            )
    lists = {key: _strings(file, key, table.get(key, [])) for key in _LISTS}
    hints = table.get("hints", False)
    if not isinstance(hints, bool):
        raise UsageError(f"{file}: [tool.hotlap] hints must be true or false")
    per_file = table.get("per-file-ignores", {})
    if not isinstance(per_file, dict):
        raise UsageError(f"{file}: [tool.hotlap.per-file-ignores] must be a table")
    return Config(
        exclude=lists["exclude"],
        ignore=lists["ignore"],
        select=lists["select"],
        extend=lists["extend-select"],
        hints=hints,
        per_file={glob: _strings(file, glob, names) for glob, names in per_file.items()},
    )


def _strings(file: Path, key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise UsageError(f"{file}: [tool.hotlap] {key} must be a list of strings")
    return tuple(value)
