"""Under DDP and FSDP2 gradients are exchanged once a step, and tokens weigh over all ranks."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

RANKS = Path(__file__).with_name("ranks.py")


def launch(*words: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = [
        subprocess.Popen(
            [sys.executable, str(RANKS), str(rank), str(port), *words],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    outputs = [rank.communicate(timeout=120)[0] for rank in ranks]
    assert all(rank.returncode == 0 for rank in ranks), "\n".join(outputs)


SLOW = [pytest.param(what, marks=pytest.mark.slow) for what in ("ddp", "tokens", "momentum")]


@pytest.mark.parametrize("what", ["fsdp", *SLOW])
def test_ranks(what: str, tmp_path: Path) -> None:
    launch(what, str(tmp_path))
