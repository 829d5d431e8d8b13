"""The recipe: the techniques a tune kept, with what was measured and on what.

Stored as `hotlap.toml`. A recipe is stale when the machine, torch or the script changed since.
"""

import hashlib
import importlib.metadata
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import tomli_w

from hotlap import __version__
from hotlap.core.errors import UsageError
from hotlap.core.machine import Machine
from hotlap.core.registry import technique

NAME = "hotlap.toml"


@dataclass(frozen=True)
class Kept:
    """One technique of the recipe; its ratio is over the script with those before it on."""

    values: dict[str, object] = field(default_factory=dict)
    ratio: float = 1.0
    interval: tuple[float, float] = (1.0, 1.0)
    memory: float = 1.0
    parity: str = ""


@dataclass(frozen=True)
class Measured:
    """What the whole recipe was measured on, and what came out.

    `script` is the first file that the command names; `program` the Python file that trains, from
    the working directory, where it lies below that; each with a hash of its text. `note`: in what
    the final race was weaker than one of fresh processes; empty where it was one. `threads`:
    "sleeping" where both sides ran with OpenMP threads that sleep while they wait, as other
    programs used the cores.
    """

    command: str = ""
    ratio: float = 1.0
    interval: tuple[float, float] = (1.0, 1.0)
    pairs: int = 0
    parity: str = ""
    confirmed: bool = False
    load: float = 0.0
    date: str = ""
    hotlap: str = __version__
    torch: str = ""
    machine: str = ""
    fingerprint: str = ""
    isolation: str = ""
    script: str = ""
    script_hash: str = ""
    program: str = ""
    program_hash: str = ""
    note: str = ""
    threads: str = ""


@dataclass(frozen=True)
class Recipe:
    """Techniques by id, in the order they were kept."""

    techniques: dict[str, Kept] = field(default_factory=dict)
    measured: Measured = field(default_factory=Measured)

    @property
    def values(self) -> dict[str, dict[str, object]]:
        """The techniques with their values, as a trial takes them."""
        return {name: dict(kept.values) for name, kept in self.techniques.items()}

    def write(self, path: Path) -> None:
        """Write it as TOML, in one piece or not at all."""
        body = {
            "measured": _tidy(_of_race(self.measured)),
            "techniques": {
                name: {**kept.values, **_tidy(_figures(kept))}
                for name, kept in self.techniques.items()
            },
        }
        partial = path.with_name(path.name + ".partial")
        partial.write_text(HEADER + tomli_w.dumps(body))
        partial.replace(path)

    @staticmethod
    def read(path: Path) -> "Recipe":
        """Read it.

        Raises:
            UsageError: no such file, not TOML, an unknown technique, a missing value, or techniques
                that exclude one another.
        """
        raw = _parsed(path)
        kept = {name: _kept(path, name, entry) for name, entry in raw["techniques"].items()}
        _refuse_conflicts(path, kept)
        return Recipe(kept, Measured(**_checked(path, "measured", raw["measured"], Measured())))

    def stale(self, machine: Machine, torch: str, command: Sequence[str]) -> list[str]:
        """What has changed since it was measured; empty when nothing has."""
        then, reasons = self.measured, []
        if then.fingerprint and then.fingerprint != machine.fingerprint:
            reasons.append(f"it was measured on another machine ({then.machine})")
        if then.torch and torch and then.torch != torch:
            reasons.append(f"torch was {then.torch} and is {torch}")
        if change := self.script_change(command):
            reasons.append(change)
        return reasons

    def script_change(self, command: Sequence[str]) -> str:
        """Which file has another text than when it was measured, or is another; empty if none."""
        then, (name, now) = self.measured, script_of(command)
        program = Path(then.program)
        measured = {then.script, program.name} - {""}
        if then.script_hash and measured and name.endswith(".py") and name not in measured:
            return f"it was measured with {then.program or then.script}"
        if then.script_hash and then.script == name and then.script_hash != now:
            return f"{then.script} has changed"
        if then.program_hash and program.is_file() and hash_of(program) != then.program_hash:
            return f"{then.program} has changed"
        return ""


HEADER = """\
# Written by `hotlap tune`; applied by `hotlap run`, written into source by `hotlap patch`.
# Ratios are plain time over tuned time.
# A technique can be taken out by deleting its table, and its values can be changed by hand.

"""
_FIGURES = ("ratio", "interval", "memory", "parity")


def _of_race(measured: Measured) -> dict[str, object]:
    """The fields; no ratio where the whole recipe was not raced, as of a tune that was stopped."""
    unknown = () if measured.pairs else ("ratio", "interval")
    return {name: value for name, value in asdict(measured).items() if name not in unknown}


def _figures(kept: Kept) -> dict[str, object]:
    """What a race measured; nothing of what is on only because another technique needs it."""
    if kept == Kept(kept.values):
        return {}
    return {name: getattr(kept, name) for name in _FIGURES}


def _tidy(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: _rounded(value) for name, value in fields.items() if value != ""}


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return round(value, 4)
    return [_rounded(v) for v in value] if isinstance(value, tuple) else value


def _checked(
    path: Path, table: str, entries: dict[str, object], usual: "Kept | Measured"
) -> dict[str, Any]:
    """The entries of a table that are known, each of the type of the usual one.

    Raises:
        UsageError: one is of another type.
    """
    known = {name: value for name, value in entries.items() if hasattr(usual, name)}
    given = {name: tuple(v) if isinstance(v, list) else v for name, v in known.items()}
    for name, value in given.items():
        if not _is_like(value, getattr(usual, name)):
            raise UsageError(
                f"{path}: {table}.{name} is {known[name]!r}",
                "hotlap tune writes it; without the entry the recipe works as well",
            )
    return given


def _is_like(value: object, usual: object) -> bool:
    if isinstance(usual, tuple):
        return isinstance(value, tuple) and list(map(type, value)) == list(map(type, usual))
    return type(value) is type(usual) or (isinstance(usual, float) and type(value) is int)


def _parsed(path: Path) -> dict[str, Any]:
    try:
        raw = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise UsageError(f"there is no recipe at {path}", _instead(path)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not a recipe: {error}") from None
    except OSError as error:
        hint = "--recipe names another file" if path.is_dir() else ""
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint) from None
    if "technique" in raw:
        raise UsageError(f"{path}: [technique.…] is not read", "the tables are [techniques.…]")
    if not isinstance(raw.setdefault("techniques", {}), dict):
        raise UsageError(f"{path} is not a recipe: `techniques` must be tables")
    if not isinstance(raw.setdefault("measured", {}), dict):
        raise UsageError(f"{path} is not a recipe: `measured` must be a table")
    return raw


def _kept(path: Path, name: str, entry: object) -> Kept:
    if not isinstance(entry, dict):
        raise UsageError(f"{path}: techniques.{name} must be a table, as [techniques.{name}]")
    record = technique(name)
    values = {k: v for k, v in entry.items() if k not in _FIGURES}
    wanted = {choice.name for choice in record.choices}
    known = "; ".join(f"{choice.name} = {choice.wanted}" for choice in record.choices)
    for what, names in (("lacks", wanted - set(values)), ("has no", set(values) - wanted)):
        if names:
            where = f"{path}: techniques.{name} {what} {', '.join(sorted(names))}"
            raise UsageError(where, f"give {known}" if known else "it has no values")
    for choice in record.choices:
        if not choice.takes(values[choice.name]):
            given = f"techniques.{name}: {choice.name} is {values[choice.name]!r}"
            raise UsageError(f"{path}: {given}", f"give {choice.wanted}")
    figures = {name: entry[name] for name in _FIGURES if name in entry}
    return Kept(values, **_checked(path, f"techniques.{name}", figures, Kept()))


def _refuse_conflicts(path: Path, kept: Mapping[str, Kept]) -> None:
    for name in kept:
        for other in technique(name).conflicts:
            if other in kept:
                raise UsageError(f"{path}: {name} and {other} exclude each other: take one out")


def script_of(command: Sequence[str]) -> tuple[str, str]:
    """The first file of Python or shell that the command names, and a hash of its text.

    A module is named behind `-m`, where it lies below the working directory.
    """
    for before, word in pairwise(("", *command)):
        for path in _module(word) if before == "-m" else (Path(word),):
            if path.suffix in {".py", ".sh"} and path.is_file():
                return path.name, hash_of(path)
    return "", ""


def _module(name: str) -> tuple[Path, Path]:
    """The files that a module may be run from."""
    path = name.replace(".", "/")
    return Path(f"{path}.py"), Path(path, "__main__.py")


def hash_of(path: Path) -> str:
    """A hash of a file's text."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def torch_version() -> str:
    """The torch installed beside hotlap, found without importing it; empty if there is none."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return ""


def _instead(path: Path) -> str:
    """What to do where there is no recipe."""
    beside = unconfirmed(path)
    if beside.is_file():
        option = f"--recipe {shlex.quote(str(beside))}"
        return f"`{option}` takes the one that the final race of `tune` did not confirm"
    return "`hotlap tune CMD...` writes one if it keeps anything; --recipe names another"


def unconfirmed(path: Path) -> Path:
    """Where a recipe goes that was not confirmed: `hotlap.unconfirmed.toml`."""
    return path.with_name(f"{path.stem}.unconfirmed{path.suffix}")
