"""Norms over shards are the true norms: two ranks give what one process gives."""

import subprocess
import sys
from pathlib import Path

import pytest

RANKS = Path(__file__).with_name("ranks.py")


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("ddp", marks=pytest.mark.slow),
        "fsdp",
        pytest.param("tp", marks=pytest.mark.slow),
    ],
)
def test_two_ranks_train_as_one_process(how: str, tmp_path: Path) -> None:
    ranks = [
        subprocess.Popen(
            [sys.executable, str(RANKS), str(tmp_path / "meeting"), how, str(rank)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        for rank in ranks:
            _, errors = rank.communicate(timeout=120)
            assert rank.returncode == 0, errors
    finally:
        for rank in ranks:
            rank.kill()
