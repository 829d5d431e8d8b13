"""Lint: run every pattern's check over source files."""

import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from hotlap.core.amounts import several
from hotlap.core.errors import UsageError
from hotlap.core.pattern import Pattern
from hotlap.core.registry import techniques
from hotlap.core.technique import Technique
from hotlap.notebook.script import SUFFIX, Notebook
from hotlap.source.config import Config
from hotlap.source.files import python_files
from hotlap.source.found import Found, told
from hotlap.source.lint_ahead import ahead
from hotlap.source.lint_cache import LintCache
from hotlap.source.module import Source
from hotlap.source.project import Project, View
from hotlap.source.summary import Summary

BROKEN = "broken_file"
_MARKS = (b"torch", b"lightning", b"accelerate", b"transformers")
Progress = Callable[[str], None]
Check = Callable[[Source, Technique], Iterable[Found]]


@dataclass(frozen=True, order=True)
class Spot:
    """A pattern found at a place. Lines count from 1, columns too.

    `since` is the line from which its work counts, where that is not `line`; 0 elsewhere.
    `cell`: the code cell of a notebook (from 1) that the lines count in; 0 elsewhere.
    `differentiated`: what its lines cost in the forward pass comes again in the backward pass.
    `elsewhere`: its cost is that of its technique's finding in a profile, not of its lines.
    `part_of`: the fact that is the share of its lines' time that it costs; empty: all of it.
    `part`: that share itself, where it is known; `seconds`: the most that its lines cost in a step,
    where that was measured.
    `small_operators`: it costs nothing where the operators of its lines are large.
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
    absent: bool = False
    cell: int = 0
    elsewhere: bool = False
    part_of: str = ""
    part: float = 0.0
    seconds: float = 0.0
    small_operators: bool = False

    @property
    def priced(self) -> range:
        """The lines whose time is its cost."""
        if self.absent:
            return range(0)
        return range(self.since or self.line, max(self.line, self.end_line) + 1)

    @property
    def place(self) -> str:
        """`file:line:column`, in a notebook `file:cell n:line:column`."""
        return f"{self.path}:{self.position}"

    @property
    def position(self) -> str:
        """`line:column`, in a notebook `cell n:line:column`."""
        return f"{f'cell {self.cell}:' if self.cell else ''}{self.line}:{self.column}"


def lint(
    paths: Iterable[Path],
    config: Config,
    cache: LintCache | None = None,
    progress: Progress = lambda _: None,
) -> Iterator[Spot]:
    """Every spot in the Python files at and below the paths, file by file, in their order.

    The files are judged as one project, with what they import from below the configuration's root.
    `cache`: where to keep what was found out (default: the user's cache directory). `progress`
    is called with what was done so far, after each file.

    Raises:
        UsageError: a path does not exist.
    """
    files = {path: _content(path) for path in python_files(paths, config)}
    kept = cache or LintCache()
    read = _Reader(files, kept, progress)
    with ahead(tuple(files), _Reader(files, kept)):
        summaries = {path: found for path in files if (found := read(path)) is not None}
    project = Project(config.root, summaries, read)

    def judge(path: Path) -> list[Spot]:
        content = files[path]
        if isinstance(content, OSError):
            return [_unreadable(path, content)]
        return _judged(path, content, project.view(path), kept)

    with ahead(tuple(files), judge):
        for index, path in enumerate(files):
            progress(f"{index} of {several(len(files), 'file')} judged")
            yield from _wanted(judge(path), path, config)
    kept.sweep()


def lint_file(
    path: Path, content: bytes, config: Config, project: View | None = None
) -> list[Spot]:
    """The spots of one file, in the order of its lines."""
    return _wanted(_spots_of(path, content, project), path, config)


class _Reader:
    """Reads the summaries of files, by way of the cache."""

    def __init__(
        self,
        files: dict[Path, bytes | OSError],
        cache: LintCache,
        progress: Progress = lambda _: None,
    ) -> None:
        self._files, self._cache, self._progress = files, cache, progress
        self._count = 0

    def __call__(self, path: Path) -> Summary | None:
        """The summary of a file; None where it is no Python."""
        self._count += 1
        self._progress(f"{several(self._count, 'file')} read, imported ones included")
        content = self._files.get(path) or _content(path)
        if isinstance(content, OSError):
            return None
        stored = self._cache.get("summary", content)
        if stored is not None:
            return Summary.from_dict(stored)
        try:
            found = Source(path, content).summary
        except (SyntaxError, RecursionError):
            return None
        self._cache.put(found.to_dict(), "summary", content)
        return found


def _content(path: Path) -> bytes | OSError:
    try:
        return Notebook(path).code().encode() if path.suffix == SUFFIX else path.read_bytes()
    except OSError as error:
        return error
    except UsageError as error:
        return OSError(0, str(error))


def _judged(path: Path, content: bytes, project: View, cache: LintCache) -> list[Spot]:
    """The spots of a file, from the cache where nothing that they depend on has changed."""
    key = ("spots", str(path), content, project.digest)
    stored = cache.get(*key)
    if stored is not None:
        return [Spot(**{**one, "path": path, "phases": tuple(one["phases"])}) for one in stored]
    found = _spots_of(path, content, project)
    cache.put([{**asdict(spot), "path": ""} for spot in found], *key)
    return found


def _spots_of(path: Path, content: bytes, project: View | None) -> list[Spot]:
    """Every spot of a file, hints included."""
    try:
        source = Source(path, content, project)
        if not any(mark in content for mark in _MARKS) and not source.project.runs_in_steps:
            return []
        found = {s for record, pattern in patterns() for s in _spots(source, record, pattern)}
    except SyntaxError as error:
        return [_broken(path, error)]
    except RecursionError:
        return [_broken(path, SyntaxError("nested too deeply to be judged"))]
    return sorted(spot for spot in found if not source.ignored(spot.line, spot.id))


def _wanted(spots: list[Spot], path: Path, config: Config) -> list[Spot]:
    """What the configuration asks for."""
    return [
        spot
        for spot in spots
        if (config.hints or not spot.hint or spot.id in (*config.extend, *config.select))
        and config.wants(spot.id, path)
    ]


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
            pattern.absent,
            elsewhere=pattern.elsewhere,
            part_of=pattern.part_of,
            small_operators=pattern.small_operators,
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
        "fix the syntax; the other files were checked",
        "",
        end_line=error.lineno or 1,
        end_column=max(1, error.offset or 1),
    )
