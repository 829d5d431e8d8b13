"""Under DDP and FSDP2 gradients are exchanged once a step, and tokens weigh over all ranks."""

import runpy
import sys
from pathlib import Path

import pytest

from parallel import farm

RANKS = Path(__file__).with_name("ranks.py")


def rank(*words: str) -> None:
    sys.argv = [str(RANKS), *words]  # of a fork: nobody else sees it
    runpy.run_path(str(RANKS), run_name="__main__")


SLOW = [pytest.param(what, marks=pytest.mark.slow) for what in ("ddp", "tokens", "momentum")]


@pytest.mark.parametrize("what", ["fsdp", *SLOW])
def test_ranks(what: str, tmp_path: Path) -> None:
    farm.run(2, rank, what, str(tmp_path))
