"""Disks and /dev/shm that are really full: small tmpfs mounts in a mount namespace of their own."""

import shutil
import subprocess
import sys

import pytest

from data.images import folder

PYTHON = sys.executable


def _in_namespace(script):
    command = ["unshare", "--mount", "sh", "-ec", script]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


@pytest.fixture
def mounts(tmp_path):
    """Run a shell script that may mount; skips where that is not permitted."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    (tmp_path / "probe").mkdir()
    if _in_namespace(f"mount -t tmpfs -o size=64k tmpfs {tmp_path}/probe").returncode:
        pytest.skip("mounting in a namespace is not permitted here")
    return _in_namespace


PACK = """
import sys
from hotlap.data.pack import pack
from hotlap.data.errors import PackError
try:
    store = pack(sys.argv[1], sys.argv[2], workers=int(sys.argv[3]), shards=4)
    print(len(store), store.verify())
except PackError as error:
    print(error)
"""


@pytest.mark.parametrize("workers", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_a_full_disk_is_a_clear_error_and_packing_goes_on_with_more_room(tmp_path, mounts, workers):
    folder(tmp_path / "src", each=12, height=200, width=300)
    disk = tmp_path / "disk"
    disk.mkdir()
    (tmp_path / "p.py").write_text(PACK)
    run = f"{PYTHON} {tmp_path}/p.py {tmp_path}/src {disk}/out {workers}"
    done = mounts(
        f"mount -t tmpfs -o size=200k tmpfs {disk}; {run}; ls {disk}; "
        f"mount -o remount,size=8m {disk}; {run}; ls {disk}"
    )
    assert done.returncode == 0, done.stderr
    error, left, whole, kept = done.stdout.splitlines()
    assert error.startswith(f"no space left on the disk of {disk}/out.partial/")
    assert error.endswith("give the same command again; what is packed so far stays")
    assert (left, whole, kept) == ("out.partial", "24 []", "out")


LOAD = """
import sys
from hotlap.data import Loader
from hotlap.data.transforms import Resize
for workers in (0, 2):
    loader = Loader(sys.argv[1], 8, transform=Resize((64, 64)), workers=workers)
    print(sum(len(labels) for _, labels in loader))
"""


def test_a_full_dev_shm_does_not_matter(tmp_path, mounts):
    from hotlap.data.pack import pack

    folder(tmp_path / "src", each=12)
    pack(tmp_path / "src", tmp_path / "s", workers=1)
    (tmp_path / "l.py").write_text(LOAD)
    done = mounts(
        "mount -t tmpfs -o size=8k tmpfs /dev/shm; head -c 8192 /dev/zero > /dev/shm/full; "
        f"{PYTHON} {tmp_path}/l.py {tmp_path}/s; ls /dev/shm"
    )
    assert done.stdout.split() == ["24", "24", "full"], done.stderr
