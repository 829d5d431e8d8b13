"""Lint: run every pattern's check over source files."""

import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hotlap.core.pattern import Pattern
from hotlap.core.registry import techniques
from hotlap.core.technique import Technique
from hotlap.source.config import Config
from hotlap.source.files import python_files
from hotlap.source.found import Found, told
from hotlap.source.module import Source

BROKEN = "broken_file"
_MARKS = (b"torch", b"lightning", b"accelerate", b"transformers")
Check = Callable[[Source, Technique], Iterable[Found]]


@dataclass(frozen=True, order=True)
class Spot:
    """A pattern found at a place. Lines count from 1, columns too.

    `since` is the line from which its work counts, where that is not `line`; 0 elsewhere.
    `differentiated`: what its lines cost in the forward pass comes again in the backward pass.
    """

    path: Path
    line: int
    column: int
    id: str
    says: str
    remedy: str
    technique: str
    hint: bool = False
    end_line: int = 0
    end_column: int = 0
    phases: tuple[str, ...] = ()
    since: int = 0
    differentiated: bool = False

    @property
    def priced(self) -> range:
        """The lines whose time is its cost."""
        return range(self.since or self.line, max(self.line, self.end_line) + 1)

    @property
    def place(self) -> str:
        """`file:line:column`."""
        return f"{self.path}:{self.line}:{self.column}"


def lint(paths: Iterable[Path], config: Config) -> Iterator[Spot]:
    """Every spot in the Python files at and below the paths, file by file, in their order.

    Raises:
        UsageError: a path does not exist.
    """
    for path in python_files(paths, config):
        try:
            content = path.read_bytes()
        except OSError as error:
            if config.wants(BROKEN, path):
                yield _unreadable(path, error)
            continue
        yield from lint_file(path, content, config)


def lint_file(path: Path, content: bytes, config: Config) -> list[Spot]:
    """The spots of one file, in the order of its lines."""
    try:
        source = Source(path, content)
    except SyntaxError as error:
        return [_broken(path, error)] if config.wants(BROKEN, path) else []
    if not any(mark in content for mark in _MARKS):
        return []
    try:
        found = [
            spot
            for record, pattern in patterns()
            if config.wants(pattern.id, path) and (config.hints or not pattern.hint)
            for spot in _spots(source, record, pattern)
            if config.hints or not spot.hint
        ]
    except RecursionError:
        return [_broken(path, SyntaxError("nested too deeply to be judged"))]
    return sorted(spot for spot in set(found) if not source.ignored(spot.line, spot.id))


def patterns() -> list[tuple[Technique, Pattern]]:
    """Every pattern of the catalogue with its technique."""
    return [(record, pattern) for record in techniques().values() for pattern in record.patterns]


def _spots(source: Source, record: Technique, pattern: Pattern) -> Iterator[Spot]:
    for found in _check(pattern.check)(source, record):
        seen = told(found)
        node, detail, line = seen.node, seen.detail, getattr(seen.node, "lineno", 1)
        column = getattr(node, "col_offset", 0) + 1
        yield Spot(
            source.path,
            line,
            column,
            pattern.id,
            f"{pattern.says} ({detail})" if detail else pattern.says,
            pattern.remedy,
            record.id,
            pattern.hint or seen.hint,
            getattr(node, "end_lineno", None) or line,
            (getattr(node, "end_col_offset", None) or column - 1) + 1,
            pattern.phases,
            min(line, getattr(seen.since, "lineno", line)),
            pattern.differentiated,
        )


@cache
def _check(name: str) -> Check:
    module, _, function = name.partition(":")
    check: Check = getattr(importlib.import_module(module), function)
    return check


def _unreadable(path: Path, error: OSError) -> Spot:
    says = f"cannot be read: {error.strerror}"
    return Spot(path, 1, 1, BROKEN, says, "make it readable, or exclude it", "", end_line=1)


def _broken(path: Path, error: SyntaxError) -> Spot:
    return Spot(
        path,
        error.lineno or 1,
        max(1, error.offset or 1),
        BROKEN,
        f"not valid Python: {error.msg}",
        "mend the syntax; the other files were judged",
        "",
        end_line=error.lineno or 1,
        end_column=max(1, error.offset or 1),
    )
