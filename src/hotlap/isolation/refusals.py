"""What helps a program that failed because its isolation refused a write."""

import contextlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from hotlap.common.disk import end_of, no_space
from hotlap.core.spec import Tier
from hotlap.isolation.refused_calls import REFUSED, SAID, refused
from hotlap.isolation.tiers import Isolation, isolation

_TAIL = 20_000
_MOST_FILES = 100_000
_REFUSED = re.compile(r"Permission denied|Errno 13\b|os error 13\b")
_DISK_FULL = re.compile(r"No space left on device|Errno 28\b|os error 28\b")
_PATHS = (
    re.compile(r"Permission denied: ['\"]([^'\"\n]+)['\"]"),  # Python
    re.compile(r"os error 13\) at path \"([^\"\n]+)\""),  # Rust's tempfile
    re.compile(
        r"cannot [a-z ]+['\"\u2018]([^'\"\u2019\n]+)['\"\u2019]: Permission denied"
        # Programs in C, as those of coreutils:
    ),
    re.compile(r"cannot create ([^:'\u2018\n]+): Permission denied"),  # dash
    re.compile(r"line \d+: ([^:\n]+): Permission denied"),  # bash
)


def refusal_hint(output: Path | None, scratch: Path | None) -> str:
    """Name program and path of a refused write, and the option that allows it; empty if none was.

    Args:
        output: what the trial printed.
        scratch: the folder that takes trials' writes; its isolation decides what is said.
    """
    if output is None or scratch is None:
        return ""
    written = end_of(output, _TAIL)
    how = isolation(scratch)
    if how.tier is Tier.LANDLOCK and (REFUSED in written or _REFUSED.search(written)):
        return _refused(written)
    hint = disk_full(how, scratch)
    full = hint in written or _DISK_FULL.search(written) or no_space(output.parent)
    return hint if hint and full else ""


def _refused(written: str) -> str:
    named = [line for line in written.splitlines() if line.startswith(f"{SAID}{REFUSED}")]
    if named:
        return named[-1].removeprefix(SAID)
    found = [(m.start(), m[1]) for pattern in _PATHS for m in pattern.finditer(written)]
    if not found:
        return "Landlock may have refused a write: allow its folder with --writable DIR"
    return refused(str(Path(max(found)[1]).absolute()))


def disk_full(how: Isolation, scratch: Path) -> str:
    """Where a trial's writes lie that found no space, and what to do; `scratch` as above."""
    if how.tier is Tier.OFF:
        return ""
    if how.layers_in_temp:
        return "the trial's layer lies in the temporary folder; set TMPDIR to a larger disk"
    return (
        f"the trial's writes lie in {scratch}; free space there, or replace {scratch.parent.name} "
        "by a link to a folder on a larger disk"
    )


def space_warning(how: Isolation, scratch: Path, root: Path) -> str:
    """Say that the largest file below `root` would not fit into a layer; empty if it would.

    The first write to an existing file copies all of it. Of a large tree 100,000 entries are seen.
    """
    if how.tier is not Tier.OVERLAY:
        return ""
    place = Path(tempfile.gettempdir()) if how.layers_in_temp else root
    free = shutil.disk_usage(place).free
    largest, size = None, free
    for path in islice(_files(root, scratch.parent), _MOST_FILES):
        with contextlib.suppress(OSError):
            found = path.lstat()
            blocks = found.st_size if stat.S_ISREG(found.st_mode) else 0
            largest, size = (path, blocks) if blocks > size else (largest, size)
    if largest is None:
        return ""
    return (
        f"{largest} has {size / 2**30:.1f} GiB and the trials' layer {free / 2**30:.1f} GiB free: "
        f"a trial that writes to the file fails; --writable {largest.parent} lets it write for real"
    )


def _files(root: Path, skipped: Path) -> Iterator[Path]:
    for folder, below, names in os.walk(root):
        below[:] = [name for name in below if Path(folder, name) != skipped]
        yield from (Path(folder, name) for name in names)
