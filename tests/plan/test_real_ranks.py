"""Dry runs against real ranks, joined by Gloo: the memory of their tensors, and their FLOPs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hotlap.plan.child import ask

HERE = Path(__file__).parent
LAYOUTS = json.loads((HERE / "layouts.json").read_text())
QUICK = ("one process", "tensor + sequence 2")
ROW = "rank {rank}: {peak} bytes really, {dry} by dry run"


def real(jobs):
    command = [sys.executable, str(HERE / "real_ranks.py")]
    lines = "\n".join(json.dumps(job) for job in jobs)
    done = subprocess.run(command, input=lines, text=True, capture_output=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def agree(names):
    jobs = [LAYOUTS[name] for name in names]
    stages = [job["parallelism"].get("pp", 1) for job in jobs]
    asked = [job | {"stage": s} for job, n in zip(jobs, stages, strict=True) for s in range(n)]
    answers = iter(ask(asked))
    for name, number, ranks in zip(names, stages, real(jobs), strict=True):
        dry = [next(answers) for _ in range(number)]
        assert not [answer for answer in (*dry, *ranks) if "error" in answer], name
        for rank in ranks:
            own = dry[rank["rank"] * number // len(ranks)]
            said = f"{name}, " + ROW.format(rank=rank["rank"], peak=rank["peak"], dry=own["peak"])
            assert own["peak"] == pytest.approx(rank["peak"], rel=0.02), said
            assert own["flops"] == rank["flops"], said
            if len(ranks) == 1:  # the allocator, which sees kernels' scratch memory too, agrees
                assert own["peak"] == pytest.approx(rank["allocated"], rel=0.01)


@pytest.mark.slow
def test_real_ranks_agree():
    agree(QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LAYOUTS if name not in QUICK])
def test_real_ranks_of_every_kind_agree(name):
    agree([name])
