"""Searches of real commands: the mechanics."""

import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from hotlap.batch.baseline import observe_script
from hotlap.batch.batch_search import BatchSearchConfig, Search
from hotlap.batch.contestant import Contestant, OutOfTime, SizedCommand, TooLarge
from hotlap.batch.limits import Limits
from hotlap.core.errors import NotReachedError, TrialFailedError, UsageError
from hotlap.core.spec import Mode
from hotlap.trial.launch import Setting

HERE = Path(__file__).parent
LOOP, GPT = HERE / "loop.py", HERE / "gpt.py"
DIGITS = HERE.parent.parent / "examples" / "digits" / "train.py"


def sized_command(tmp_path: Path, *words: object, **fields: Any) -> SizedCommand:
    setting = Setting(
        (sys.executable, *map(str, words)), Mode.RACE, seed=0,
        scratch=tmp_path / "scratch", output=tmp_path / "log",
    )  # fmt: skip
    return SizedCommand(setting, **fields)


class Silent:
    def __init__(self) -> None:
        self.stages: list[str] = []

    def stage(self, text: str) -> None:
        self.stages.append(text)

    def row(self, row: Any) -> None:
        self.stages.append(f"row {row.size}")


@pytest.mark.slow
def test_the_loaders_that_feed_the_training_are_driven(tmp_path: Path) -> None:
    here = sized_command(tmp_path, LOOP, "--accumulate", "2")
    script = observe_script(here)
    assert (script.batch, script.loaders, script.samples) == (4, (0,), 600)
    assert (script.micro_batches, script.optimizer, script.lr) == (2, "SGD", 1e-6)
    rival = Contestant(sized_command(tmp_path, LOOP, loaders=(0,)), 24)
    try:
        block = rival.timed(0.05)
        assert block.samples <= 24 * block.steps
        assert block.samples > 20 * block.steps - 24
        assert block.seconds > 0
    finally:
        rival.close()


def test_loaders_that_are_left_alone_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"loop.py:\d+ has a batch_sampler") as caught:
        observe_script(sized_command(tmp_path, LOOP, "--batch-sampler"))
    assert "--set" in caught.value.hint


def test_a_program_that_trains_nothing_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(NotReachedError, match="no backward pass was seen"):
        observe_script(sized_command(tmp_path, "-c", "import torch"))


@pytest.mark.slow  # tests/trial/test_race.py asks the same
def test_a_program_without_an_optimizer_is_told_so(tmp_path: Path) -> None:
    only_backward = "import torch; torch.ones(1, requires_grad=True).sum().backward()"
    with pytest.raises(NotReachedError, match="no step of a torch optimizer"):
        observe_script(sized_command(tmp_path, "-c", only_backward))


@pytest.mark.slow
def test_a_loop_without_a_loader_needs_its_own_option(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no DataLoader feeds") as caught:
        observe_script(sized_command(tmp_path, GPT))
    assert "--set '--batch-size {batch}'" in caught.value.hint


@pytest.mark.slow
def test_an_option_that_does_nothing_is_told(tmp_path: Path) -> None:
    search = Search(
        BatchSearchConfig(sized_command(tmp_path, LOOP, argument="--samples {batch}00")), Silent()
    )
    with pytest.raises(UsageError, match="still has batch size 4"):
        search.run()


def test_too_much_memory_ends_the_trial_and_is_told_apart(tmp_path: Path) -> None:
    small = Limits(memory=500 * 2**20)
    rival = Contestant(sized_command(tmp_path, LOOP, loaders=(0,), limits=small), 512)
    with pytest.raises(TooLarge, match=r"it takes .* of the 500 MiB allowed"):
        rival.run(30)
    assert not rival.live
    with pytest.raises(TrialFailedError, match="unrecognized arguments"):
        observe_script(sized_command(tmp_path, LOOP, "--what"))
    assert not [p for p in psutil.Process().children(recursive=True) if "loop.py" in str(p)]


@pytest.mark.slow
def test_at_the_deadline_the_trial_is_ended(tmp_path: Path) -> None:
    begin = time.monotonic()
    sized = sized_command(tmp_path, LOOP, loaders=(0,), deadline=begin + 15)
    contestant = Contestant(sized, 4)
    with pytest.raises(OutOfTime):
        contestant.run(10**9)
    assert not contestant.live
    assert not [p for p in psutil.Process().children(recursive=True) if "loop.py" in str(p)]
    search = Search(BatchSearchConfig(sized_command(tmp_path, LOOP), seconds=0.5), Silent())
    with pytest.raises(TrialFailedError, match="budget of 0 s was over") as caught:
        search.run()
    assert "--budget" in caught.value.hint


@pytest.mark.slow
def test_a_whole_search(tmp_path: Path) -> None:
    found = Search(
        BatchSearchConfig(sized_command(tmp_path, LOOP), most=8, seconds=200, confirm=3), Silent()
    ).run()
    assert found.rows[4].ratio == 1.0
    assert found.largest in {4, 8}
    assert found.fastest in found.rows
    assert set(found.confirmed) == {found.largest, found.fastest}
    assert json.dumps(found.to_json())


# the bars, minutes long


def search_under(limit: int, folder: Path, *words: object) -> dict[str, Any]:
    """`hotlap batch --json` under an RLIMIT_AS of so many bytes (0: none)."""
    program = "from hotlap.cli.batch import batch; batch(prog_name='hotlap batch')"
    done = subprocess.run(
        [sys.executable, "-c", program, "--json", *map(str, words)],
        cwd=folder, capture_output=True, text=True, check=False, timeout=900,
        preexec_fn=lambda: _limit(limit),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _limit(size: int) -> None:
    if size:
        resource.setrlimit(resource.RLIMIT_AS, (size, size))


def runs(limit: int, *words: object) -> bool:
    done = subprocess.run(
        [sys.executable, *map(str, words)], capture_output=True, check=False,
        preexec_fn=lambda: _limit(limit),
    )  # fmt: skip
    return done.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("script", [LOOP, GPT])
def test_the_answer_runs_200_steps_under_a_memory_cap(script: Path, tmp_path: Path) -> None:
    limit = 3 * 2**29
    own = ("--set", "--batch-size {batch}", "--max", 4096) if script is GPT else ()
    samples = () if script is GPT else ("--samples", 20000)
    found = search_under(
        limit, tmp_path, "--budget", "240s", *own, sys.executable, script, *samples
    )
    largest, fastest = found["largest"], found["fastest"]
    assert "memory" in found["bound"]
    for size in {largest, fastest}:
        assert runs(limit, script, *samples, "--batch-size", size, "--steps", 200), size
    beyond = [row["size"] for row in found["rows"] if not row["fits"]]
    assert min(beyond) <= max(largest * 1.5, largest + 16)


@pytest.mark.slow
def test_ranks_agree(tmp_path: Path) -> None:
    torchrun = shutil.which("torchrun", path=str(Path(sys.executable).parent))
    found = search_under(
        0, tmp_path, "--budget", "20s", "--max", "16", "--steps", 5,
        torchrun, "--nproc-per-node", 2, "--local-addr", "127.0.0.1", LOOP,
    )  # fmt: skip
    assert found["script"]["world"] == 2
    assert found["fastest"] in {4, 8, 16}
