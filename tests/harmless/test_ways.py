"""Each way to write that `ways.py` lists, in each tier: the user's tree stays as it was."""

import contextlib
import fcntl
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotlap.core.errors import UsageError
from hotlap.core.spec import Mode, Tier
from hotlap.isolation import tiers
from hotlap.isolation.tiers import FORCED, isolation
from hotlap.trial.foreground import run_foreground
from hotlap.trial.launch import Setting

WAYS = Path(__file__).with_name("ways.py")
FEWEST = 120
Snapshot = dict[str, tuple[object, ...]]


@pytest.fixture
def base() -> Iterator[Path]:
    """A folder that is no temporary one: those are written for real."""
    candidates = (Path(__file__).parents[2], Path.home(), Path("/opt"))
    places = [p for p in candidates if not in_temp(p) and os.access(p, os.W_OK)]
    if not places:
        pytest.skip("every folder that can be written here is a temporary one")
    folder = Path(tempfile.mkdtemp(prefix=".ways-", dir=places[0]))
    subprocess.run([sys.executable, WAYS, "prepare", folder / "tree"], check=True)
    yield folder
    shutil.rmtree(folder)


def in_temp(path: Path) -> bool:
    return any(path.resolve().is_relative_to(root) for root in ("/tmp", tempfile.gettempdir()))


def snapshot(root: Path) -> Snapshot:
    """All but the time of the last reading: kind, mode, links, size, time of change, content."""
    found = {}
    for path in sorted(root.rglob("*")):
        if ".hotlap" in path.parts or path.name == "project":
            continue
        about = path.lstat()
        content: object = None
        if stat.S_ISLNK(about.st_mode):
            content = path.readlink()
        elif stat.S_ISREG(about.st_mode):
            content = path.read_bytes(), file_flags(path)
        extra = os.listxattr(path, follow_symlinks=False)
        found[str(path.relative_to(root))] = (
            about.st_mode, about.st_nlink, about.st_size, about.st_mtime_ns, content, tuple(extra),
        )  # fmt: skip
    return found


def file_flags(path: Path) -> bytes:
    """What chattr changes."""
    flags = bytearray(8)
    with path.open("rb") as file, contextlib.suppress(OSError):  # a file system without flags
        fcntl.ioctl(file, 0x80086601, flags)
    return bytes(flags)


def different(before: Snapshot, after: Snapshot) -> set[str]:
    """The ways whose folder changed."""
    paths = {path for path in before | after if before.get(path) != after.get(path)}
    return {part for path in paths for part in Path(path).parts if "-" in part}


def tried(base: Path, tier: Tier, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """Run the whole table as one trial; one record for each way."""
    monkeypatch.setenv(FORCED, tier)
    monkeypatch.chdir(base / "tree" / "project")
    tiers._chosen.cache_clear()
    here = base / "tree" / "project" / ".hotlap"
    here.mkdir()
    try:
        isolation(here / "scratch")
    except UsageError as error:
        pytest.skip(str(error))
    command = (sys.executable, str(WAYS), "run", str(base / "tree"))
    log = base / "log"
    code = run_foreground(
        Setting(command, Mode.PROFILE, scratch=here / "scratch", output=log), no_end
    )
    lines = log.read_text().splitlines()
    found = []
    for line in lines:
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    assert len(found) >= FEWEST, (code, lines[-20:])
    return found


def no_end(_: object) -> bool:
    return False


def test_an_overlay_keeps_the_tree_and_shows_each_write(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(base / "tree")
    found = tried(base, Tier.OVERLAY, monkeypatch)
    assert [record for record in found if not record["read_back"]] == []
    assert different(before, snapshot(base / "tree")) == set()


def test_landlock_keeps_the_tree(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = snapshot(base / "tree")
    tried(base, Tier.LANDLOCK, monkeypatch)
    assert different(before, snapshot(base / "tree")) == set()


@pytest.mark.slow
def test_without_isolation_each_way_does_harm(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = snapshot(base / "tree")
    found = tried(base, Tier.OFF, monkeypatch)
    harmed = different(before, snapshot(base / "tree"))
    named = {"-".join(str(record["way"]).split()[::2]) for record in found}
    assert named - harmed == set()
