"""The source files that a profile met: their content's digest, and what their lines cost."""

import hashlib
import linecache
from collections.abc import Mapping
from pathlib import Path

from hotlap.core.protocol import LineShare, ProfilePayload
from hotlap.profile.model import Lines, Touched, usual_times


def touched(payload: ProfilePayload, began: float) -> dict[str, Touched]:
    """The files by absolute path. `began`: the time (seconds since the epoch) the run started."""
    seconds, _ = usual_times(payload)
    return {
        path: Touched(_digest_since(Path(path), began), _costs(lines, seconds))
        for path, lines in payload.sampled.items()
        if Path(path).is_file()
    }


def digest(content: bytes) -> str:
    """A digest of a file's content."""
    return hashlib.sha256(content).hexdigest()[:32]


def line_of(path: Path, line: int) -> str:
    """A line of source as written, without its indentation; empty if it is not there."""
    return linecache.getline(str(path), line).strip()


def _digest_since(path: Path, began: float) -> str:
    """Empty if the file changed after the run began: the lines may be those of the old one."""
    return digest(path.read_bytes()) if path.stat().st_mtime <= began else ""


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
