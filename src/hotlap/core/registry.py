"""Finds every technique: the package's own folder, then those named by HOTLAP_TECHNIQUES."""

import importlib.util
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType, ModuleType

from hotlap.core.errors import UsageError, did_you_mean
from hotlap.core.facts import check_vocabulary
from hotlap.core.move import Call, Env, Flag, Keyword, Swap
from hotlap.core.technique import Technique

FOLDER = Path(__file__).parent.parent / "techniques"
CEILINGS = FOLDER.parent / "ceilings"
VARIABLE = "HOTLAP_TECHNIQUES"
MOST_MEANT = 3
"""Techniques that the hint on an unknown one names."""


def folders() -> list[Path]:
    """The folders searched, in order; a later file of the same name is refused."""
    extra = os.environ.get(VARIABLE, "")
    return [FOLDER, *(Path(part) for part in extra.split(os.pathsep) if part)]


def techniques() -> Mapping[str, Technique]:
    """Every technique by id, in the order of group, then id."""
    return _load(tuple(folders()))


def ceilings() -> Mapping[str, Technique]:
    """The what-if records, by id: raced like techniques, never kept."""
    return _load((CEILINGS,))


def technique(name: str) -> Technique:
    """Return one technique.

    Raises:
        UsageError: no technique has this id; names the closest ones.
    """
    known = techniques()
    if name in known:
        return known[name]
    if name in ceilings():
        return ceilings()[name]
    meant = named_by(name)[:MOST_MEANT]
    otherwise = "`hotlap explain` lists all of them"
    hint = (
        f"did you mean {' or '.join(meant)}?"
        if meant
        else did_you_mean(name, known, str, otherwise)
    )
    raise UsageError(f"there is no technique called {name!r}", hint)


def named_by(word: str) -> list[str]:
    """The techniques whose id has a word in it, or torch's name of what they change.

    Without such, those whose title or remedy names it: `torch.compile`, `autocast`.
    """
    wanted = _parts(word)
    for names in (_own_names, _words):
        found = [
            record.id
            for record in techniques().values()
            if any(_within(wanted, _parts(name)) for name in names(record))
        ]
        if found:
            return found
    return []


def _own_names(record: Technique) -> Iterator[str]:
    yield record.id
    for move in record.moves:
        if isinstance(move, Keyword | Env):
            yield move.name
        elif isinstance(move, Flag | Call):
            yield move.target
        elif isinstance(move, Swap):
            yield from move.targets


def _words(record: Technique) -> Iterator[str]:
    yield record.title
    for pattern in record.patterns:
        yield pattern.remedy


def _parts(name: str) -> list[str]:
    return re.findall("[a-z0-9]+", name.lower())


def _within(wanted: list[str], parts: list[str]) -> bool:
    size = len(wanted)
    return bool(wanted) and any(parts[i : i + size] == wanted for i in range(len(parts) - size + 1))


@cache
def _load(where: tuple[Path, ...]) -> Mapping[str, Technique]:
    found: dict[str, Technique] = {}
    for path in _files(where):
        if path.stem in found:
            raise UsageError(f"two techniques are called {path.stem!r}", f"rename {path}")
        found[path.stem] = replace(_record(path), id=path.stem)
    order = list(type(next(iter(found.values())).group))
    ranked = sorted(found.values(), key=lambda t: (order.index(t.group), t.id))
    return MappingProxyType({t.id: t for t in ranked})


def _files(where: tuple[Path, ...]) -> Iterator[Path]:
    for folder in where:
        if not folder.is_dir():
            raise UsageError(f"{VARIABLE} names {folder}, which is not a folder")
        yield from (p for p in sorted(folder.glob("*.py")) if not p.stem.startswith("_"))


def _record(path: Path) -> Technique:
    module = _module(path)
    record = getattr(module, "technique", None)
    if not isinstance(record, Technique):
        raise UsageError(f"{path} defines no `technique = Technique(...)`")
    check_vocabulary(path.stem, record.facts, record.phases)
    return record


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"hotlap.techniques.{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be read as Python")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
