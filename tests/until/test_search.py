"""`hotlap tune --allow training --until`: what is raced, judged, kept and refused."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pytest
from click.testing import CliRunner

from hotlap.cli.tune import tune
from hotlap.core.errors import UsageError
from hotlap.core.machine import detect
from hotlap.core.recipe import Recipe
from hotlap.core.spec import Mode
from hotlap.trial.launch import Setting
from hotlap.trial.stats import Verdict
from hotlap.trial.time_ratio import Time, time_ratio
from hotlap.tune.candidates import Wanted
from hotlap.tune.result import Status
from hotlap.until import race
from hotlap.until.race import MetricSource, Run, UntilResult, UntilRules, _hopeless
from hotlap.until.search import (
    ALPHA,
    TrainingRow,
    UntilTune,
    _candidates,
    _judged,
    level,
    recipe_of,
)
from hotlap.until.targets import Target
from light import light

TARGET = Target.parse("loss<0.35")
SCRIPT = """
import sys
import torch

torch.manual_seed(0)
inputs, weights = torch.randn(512, 32), torch.randn(32, 1)
targets = inputs @ weights
model = torch.nn.Linear(32, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.0002)
for step in range(int(sys.argv[1])):
    rows = torch.randint(0, 512, (64,))
    loss = (model(inputs[rows]) - targets[rows]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def run(seconds, *, reached=True, best=0.3):
    return Run(Time(seconds, reached), best, 100, False, ())


def raced(*pairs):
    ratio = time_ratio([(a.time, b.time) for a, b in pairs])
    return UntilResult(TARGET, ratio, pairs, 1.0)


def test_a_technique_that_is_sooner_in_all_seeds_is_kept():
    race = raced(*((run(10.0 + 0.1 * seed), run(5.0 + 0.1 * seed)) for seed in range(5)))
    assert race.ratio.verdict is Verdict.FASTER
    assert _judged(race)[0] is Status.KEPT


def test_wrong_winners_of_all_races_together_are_few():
    levels = [level(raced) for raced in range(40)]
    assert sum(one / 2 for one in levels) <= ALPHA  # an interval above the truth, not below it
    assert levels[0] > levels[1] > ALPHA / 4


def test_three_seeds_suffice_for_what_is_raced_first():
    # digits, loss < 1: the samples that one cycle over the plain script's length needs
    times = [(Time(17.0, True), Time(17.0 / ratio, True)) for ratio in (1.58, 1.70, 1.62)]
    assert time_ratio(times, level(0)).verdict is Verdict.FASTER
    assert time_ratio(times, ALPHA / 100).verdict is not Verdict.FASTER


def test_refusals_say_what_was_seen():
    missed = raced(*((run(10.0), run(40.0, reached=False, best=0.5 + seed)) for seed in range(3)))
    assert _judged(missed) == (Status.NOT_FASTER, "did not reach the target (best 0.5)")
    later = raced((run(10.0), run(12.0)), (run(10.0), run(13.0)))
    assert _judged(later) == (Status.NOT_FASTER, "reached the target later in all 2 seeds")
    nothing = raced(*((run(10.0), run(40.0, reached=False, best=math.nan)) for _ in range(3)))
    assert _judged(nothing) == (Status.NOT_FASTER, "did not reach the target (no finite value)")
    neither = raced(*((run(10.0, reached=False), run(15.0, reached=False)) for _ in range(3)))
    assert _judged(neither)[0] is Status.INCONCLUSIVE
    assert "did not arrive in 3 of 3 seeds" in _judged(neither)[1]
    mixed = raced((run(10.0), run(6.0)), (run(10.0), run(14.0)), (run(10.0), run(8.0)))
    assert _judged(mixed)[0] is Status.INCONCLUSIVE


def test_a_hopeless_candidate_is_given_up_early_a_hopeful_one_is_not():
    later, missed = (run(10.0), run(12.0)), (run(10.0), run(40.0, reached=False))
    assert not _hopeless([later])
    assert _hopeless([later, missed])
    assert not _hopeless([later, (run(10.0), run(9.0))])
    too_short = (run(10.0, reached=False), run(4.0, reached=False))
    assert not _hopeless([too_short, too_short])


class Paced:
    """A run that takes a second a slice and reaches the target after so many of them."""

    def __init__(self, setting, *_):
        self.arrives, self.seconds, self.reached, self.going = setting, 0.0, None, True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def advance(self):
        self.seconds += 1.0
        if self.seconds >= self.arrives:
            self.reached, self.going = self.seconds, False

    def run(self):
        return run(self.seconds, reached=self.reached is not None)

    def first_losses(self):
        return ()


@pytest.mark.parametrize(
    ("plain", "candidate", "to_keep", "ends"),
    [
        (10, 12, True, 12.0),  # later, yet before its time is over
        (10, 99, True, 16.0),  # the first slice beyond 1.5 times the plain script's time
        (10, 99, False, 41.0),  # in a race of two commands: 4 times
        (99, 10, True, 10.0),
    ],
)
def test_a_candidate_ends_at_one_and_a_half_times_the_plain_script(
    monkeypatch, plain, candidate, to_keep, ends
):
    monkeypatch.setattr(race, "_Runner", Paced)
    monkeypatch.setattr(race, "_with_seed", lambda setting, _: setting)
    rules = UntilRules(3, 100.0, to_keep=to_keep)
    a, b, _ = race._one_pair(
        (plain, candidate), TARGET, MetricSource(), rules, 0, 1.0, lambda *_: None
    )
    assert b.time.seconds == ends
    if plain > candidate:
        assert a.time.seconds == 41.0  # the plain script itself is waited for longer


def test_what_is_raced():
    everything = list(_candidates(Wanted(()), detect(), 400))
    found = [(record.id, values) for record, values in everything]
    assert found[:2] == [("lr_schedule", {"steps": 400}), ("lr_schedule", {"steps": 200})]
    assert {"adamw", "batch_size", "gradient_clipping"} <= {name for name, _ in found}
    assert not {"mixed_precision", "eight_bit_optimizer"} & {name for name, _ in found}
    only = list(_candidates(Wanted((), only=("adamw",)), detect(), 400))
    assert [record.id for record, _ in only] == ["adamw"]
    skipped = _candidates(Wanted((), skip=("adamw",)), detect(), 400)
    assert "adamw" not in {record.id for record, _ in skipped}


def test_the_recipe_holds_the_one_that_gains_most(tmp_path):
    races = [raced(*((run(20.0 + s), run(b + s)) for s in range(5))) for b in (12.0, 6.0)]
    rows = [TrainingRow("lr_schedule", {"steps": 5000}, Status.KEPT, "", races[1]),
            TrainingRow("adamw", {}, Status.KEPT, "", races[0])]  # fmt: skip
    result = UntilTune(("python", "train.py"), TARGET, run(20.0), rows)
    recipe = recipe_of(result, detect(), "2026-01-01")
    recipe.write(tmp_path / "hotlap.toml")
    read = Recipe.read(tmp_path / "hotlap.toml")
    assert read.values == {"lr_schedule": {"steps": 5000}}
    assert read.measured.confirmed
    assert recipe_of(UntilTune(("python",), TARGET), detect(), "") is None


@pytest.mark.parametrize("words", [["--allow", "training"], ["--until", "loss<1"]])
def test_training_is_only_changed_when_both_are_asked_for(words):
    with pytest.raises(UsageError, match="raced to a target"):
        CliRunner().invoke(tune, [*words, "python", "train.py"], catch_exceptions=False)


def tuned(folder, steps, *words, end="", script=None):
    (folder / "train.py").write_text((script or light(SCRIPT)) + end)
    command = [sys.executable, "-m", "hotlap", "tune", "--allow", "training", *words]
    return subprocess.run([*command, sys.executable, "train.py", str(steps)], cwd=folder,
                          capture_output=True, text=True, check=False)  # fmt: skip


def words_of(done):
    """All that was printed, as one line."""
    return " ".join((done.stdout + done.stderr).split())


def test_a_script_that_does_not_reach_the_target_is_said(tmp_path):
    done = tuned(tmp_path, 200, "--until", "loss<0.001", "--budget", "120s")
    assert done.returncode == 0, done.stderr
    assert "the plain script ended without reaching loss < 0.001" in words_of(done)
    assert not (tmp_path / "hotlap.toml").exists()


def test_a_target_that_the_first_steps_reach_is_refused(tmp_path):
    done = tuned(tmp_path, 10**7, "--until", "loss<1e6", "--budget", "60s")
    assert "the first 20 steps of the plain script already reach loss < 1e+06" in words_of(done)
    assert "technique" not in done.stdout


@pytest.mark.parametrize(
    ("end", "words", "says"),
    [
        ("print('score nan')", ["--until", "score>1"], "no value was finite"),
        pytest.param(
            "print('score 0.5', end='')", ["--until", "score>1"], "its best was 0.5",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "open('score.csv', 'w').write('score\\n0.5')",
            ["--until", "score>1", "--metric-file", "score.csv"], "its best was 0.5",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "loss.backward", ["--until", "loss<1e-9", "--seeds", "3"], "its best was",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "print('score high')", ["--until", "score>1", "--metric-pattern", r"score (\w+)"],
            "holds no number: 'score high'", marks=pytest.mark.slow,
        ),
    ],
    ids=["nan", "at the end", "file at the end", "losses", "no number"],
)  # fmt: skip
def test_what_a_script_that_ends_says(tmp_path, end, words, says):
    done = tuned(tmp_path, 30, *words, "--budget", "2m", end=end)
    assert says in words_of(done)


@pytest.mark.parametrize("tier", [pytest.param("overlay", marks=pytest.mark.slow), "landlock"])
def test_a_metric_file_is_read_where_the_trial_wrote_it(tmp_path, monkeypatch, tier):
    monkeypatch.setenv("HOTLAP_ISOLATION", tier)
    (tmp_path / "score.csv").write_text("score\n2\n")  # of a run before
    end = "open('score.csv', 'w').write('score\\n0.5\\n')"
    words = ["--until", "score>1", "--metric-file", "score.csv", "--budget", "3m"]
    done = tuned(tmp_path, 30, *words, end=end)
    assert "its best was 0.5" in words_of(done)


class Slices:
    """A trial that prints a value 0.1 s and one 0.4 s after each slice of 0.6 s began."""

    steps, step, wall, at = 60, 0.01, 0.6, 0

    def __init__(self, setting, _):
        self.output, self.blocks, self.held, self.inert = setting.output, [self], {}, {}

    def first(self):
        for pause, value in ((0.1, 1), (0.3, 2)):
            time.sleep(pause)
            with self.output.open("a") as file:
                file.write(f"score {self.at + value}\n")
        time.sleep(0.2)
        self.at += self.steps
        return self

    def run(self, _):
        return self.first()

    def take_metrics(self):
        return []

    def pause(self):
        pass

    close = pause


@pytest.mark.clock
def test_a_value_has_the_time_and_step_it_was_printed_at_not_those_of_the_slice(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(race, "Trial", Slices)
    setting = Setting(("python", "train.py"), Mode.RACE, output=tmp_path / "output")
    target = Target.parse("score>61.5")
    found, _ = race.run_alone(setting, target, MetricSource(), 10.0, 1.0)
    assert found.time.reached
    assert [point.seconds for point in found.curve] == pytest.approx([0.1, 0.4, 0.7, 1.0], abs=0.1)
    assert [point.steps for point in found.curve] == pytest.approx([10, 40, 70, 100], abs=10)
    assert (found.time.seconds, found.steps) == (found.curve[-1].seconds, found.curve[-1].steps)


def test_ctrl_c_keeps_what_is_complete_and_leaves_no_process(tmp_path):
    (tmp_path / "train.py").write_text(light(SCRIPT))
    command = [sys.executable, "-m", "hotlap", "tune", "--allow", "training", "--until", "loss<0.1",
               "--budget", "5m", sys.executable, "train.py", "100000000"]  # fmt: skip
    running = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)  # fmt: skip
    while not below(running.pid, "100000000"):
        time.sleep(0.2)
    os.kill(running.pid, signal.SIGINT)
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "interrupted before the plain script reached the target" in out
    end = time.monotonic() + 10  # the cleaner outlives the command by a moment
    while below(1, str(tmp_path)):
        assert time.monotonic() < end, below(1, str(tmp_path))
        time.sleep(0.1)


def below(pid, word):
    """Live processes below this one whose command line or directory holds the word."""
    found = []
    for process in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.Error):
            found += [process] if word in [*process.cmdline(), process.cwd()] else []
    return found


@pytest.mark.slow
def test_what_changes_nothing_in_the_script_is_not_applicable(tmp_path):
    words = ["--until", "loss<8", "--budget", "4m", "--seeds", "3", "--json"]
    done = tuned(tmp_path, 10**7, *words, "--only", "batch_size,adamw", script=SCRIPT)
    document = json.loads(done.stdout)
    assert {row["status"] for row in document["rows"]} == {"not applicable"}
    assert not (tmp_path / "hotlap.toml").exists()
