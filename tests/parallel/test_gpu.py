"""The same on CUDA devices over NCCL."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

RANKS = Path(__file__).with_name("nccl.py")
pytestmark = pytest.mark.gpu


def launch(ranks: int, what: str) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    tests = str(RANKS.parent.parent)
    done = subprocess.run(
        [*command, "--nproc-per-node", str(ranks), str(RANKS), what],
        check=False, capture_output=True, text=True, timeout=300,
        env=os.environ | {"PYTHONPATH": tests},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("what", ["precision", "offload"])
def test_fsdp_on_one_device(what: str) -> None:
    launch(1, what)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
@pytest.mark.parametrize("what", ["ddp", "fsdp", "tp", "tp sp loss", "pp 1F1B", "batch norm"])
def test_two_devices(what: str) -> None:
    launch(2, what)
