"""The source files that a profile met: their content's digest, and what their lines cost."""

import ast
import hashlib
import linecache
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from pathlib import Path

from hotlap.core.protocol import LineShare, OperatorCounts, ProfilePayload
from hotlap.profile.model import Lines, Touched, usual_times


def touched(payload: ProfilePayload, began: float) -> dict[str, Touched]:
    """The files by absolute path. `began`: the time (seconds since the epoch) the run started."""
    seconds, _ = usual_times(payload)
    return {
        path: _touched(
            _content_since(Path(path), began),
            _costs(lines, seconds),
            payload.operators_on.get(path, {}),
        )
        for path, lines in payload.sampled.items()
        if Path(path).is_file()
    }


def _touched(content: bytes | None, lines: Lines, operators: OperatorCounts) -> Touched:
    if content is None:
        return Touched("", lines, operators=operators)
    return Touched(digest(content), lines, tuple(line_digests(content)), operators)


def digest(content: bytes) -> str:
    """A digest of a file's content."""
    return hashlib.sha256(content).hexdigest()[:32]


def line_digests(content: bytes) -> list[str]:
    """A digest of each line of a file."""
    return [f"{zlib.crc32(line.rstrip()):08x}" for line in content.splitlines()]


def as_profiled(path: Path, old: Sequence[str]) -> dict[int, int]:
    """The line that each line (from 1) of a file was when it was profiled; changed ones are absent.

    `old` are the line digests of then.
    """
    new = line_digests(path.read_bytes())
    blocks = SequenceMatcher(None, old, new).get_matching_blocks()
    return {b.b + i + 1: b.a + i + 1 for b in blocks for i in range(b.size)}


def shown(path: Path, folder: Path) -> str:
    """A file as findings name it: from the folder, where it lies below it."""
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


def parsed(path: Path) -> ast.Module:
    """The file's syntax tree; empty where it is a notebook's cell, or has changed since it ran."""
    with suppress(OSError, SyntaxError, ValueError):
        return ast.parse(path.read_bytes())
    return ast.Module([], [])


def line_of(path: Path, line: int) -> str:
    """A line of source as written, without its indentation; empty if it is not there."""
    return linecache.getline(str(path), line).strip()


def _content_since(path: Path, began: float) -> bytes | None:
    """None if the file changed after the run began: the lines may be those of the old one."""
    return path.read_bytes() if path.stat().st_mtime <= began else None


def _costs(lines: Mapping[int, Mapping[str, LineShare]], seconds: Mapping[str, float]) -> Lines:
    return {
        line: {
            phase: (
                share * seconds.get("forward" if phase == "loss" else phase, 0.0),
                count,
                tuple(calls),
            )
            for phase, (share, count, calls) in phases.items()
        }
        for line, phases in lines.items()
    }
