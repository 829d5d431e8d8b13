"""Temporary folders go with the process that made them, however it ends."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from hotlap.core.spec import REACHED
from hotlap.isolation.folders import temporary_folder

MAKER = """
import sys, time
from pathlib import Path
from hotlap.isolation.folders import temporary_folder
folder = temporary_folder("hotlap-", Path(sys.argv[1]))
(Path(sys.argv[1]) / folder.name).mkdir()
print(folder, flush=True)
time.sleep(100)
"""


def test_sockets_in_a_folder_have_addresses_that_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("long" * 20)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    folder = temporary_folder("hotlap-")
    try:
        address = folder / REACHED / "listener-12345678"
        address.parent.mkdir()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(address))
    finally:
        shutil.rmtree(folder)


def test_a_kill_of_the_whole_group_leaves_no_folder(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    maker = subprocess.Popen(
        [sys.executable, "-c", MAKER, str(scratch)],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert maker.stdout is not None
    folder = Path(maker.stdout.readline().strip())
    assert folder.is_dir()
    assert folder.stat().st_mode & 0o777 == 0o700
    os.killpg(maker.pid, signal.SIGKILL)
    maker.communicate()
    deadline = time.monotonic() + 10
    while (folder.exists() or list(scratch.iterdir())) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not folder.exists()
    assert not list(scratch.iterdir())
