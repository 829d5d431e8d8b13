"""A profile that is broken off tells what it has, and that it is not all."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from planted.manifest import FOLDER


def test_ctrl_c_gives_a_profile_that_says_it_is_partial(tmp_path: Path) -> None:
    script = [sys.executable, str(FOLDER / "running_loss.py"), "--steps", "1000000"]
    command = [sys.executable, "-m", "hotlap", "profile", "--steps", "all", *script]
    running = subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline().startswith("step 0")
    time.sleep(3.0)
    running.send_signal(signal.SIGINT)
    _, told = running.communicate(timeout=60)
    assert running.returncode == -signal.SIGINT
    assert "partial: the program was interrupted" in told
    assert "what made the program fail" not in " ".join(told.split())
    assert "profiling step" not in told  # progress is for terminals
    kept = json.loads((tmp_path / ".hotlap" / "profile.json").read_text())
    assert kept["partial"]
    assert kept["steps"] > 0
