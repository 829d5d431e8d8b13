"""The outcome of a tune, as a person and as a program reads it."""

import json
import math
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from hotlap.cli.common import plain
from hotlap.cli.tune import tune as command_line
from hotlap.core.protocol import ProfilePayload, decode
from hotlap.core.recipe import Kept
from hotlap.profile.model import Finding, Remedy
from hotlap.reporting import html, tune_text
from hotlap.trial.command import EXECUTE, FIRST_CELL, normalise
from hotlap.trial.launch import SLEEPING_THREADS
from hotlap.trial.parity import Parity
from hotlap.trial.race import RaceResult
from hotlap.trial.stats import Estimate, Verdict
from hotlap.tune.result import (
    ENDED,
    OUT_OF_TIME,
    Outcome,
    ProcessTimes,
    Status,
    TimeUse,
    TuneResult,
    UpperBound,
    advice,
)

PARITY = Parity(True, "bitwise", 100, 0.0, 0.0, "losses equal in all 100 steps")


def race(ratio: float) -> RaceResult:
    estimate = Estimate(ratio, ratio * 0.95, ratio * 1.05, 12, 0.95)
    return RaceResult(
        estimate, Verdict.FASTER, "epoch", True, 0.02, 0.02 / ratio, ratio, 1.0, 0, 0, 9
    )


def result() -> TuneResult:
    found = TuneResult(("python", "train.py"), 145.0, deterministic=True, noise_floor=race(1.0))
    found.upper_bounds = [UpperBound("data_free", "upper bound", race(3.0).estimate)]
    found.outcomes = [
        Outcome("no_grad_eval", Status.KEPT, PARITY.reason, {}, race(1.5), PARITY),
        Outcome("fused_pointwise", Status.CRASHED, "boom <b>", {"mode": "default"}),
        Outcome("tf32", Status.NOT_APPLICABLE, "the model is not on a CUDA device"),
    ]
    found.final, found.final_parity = race(1.5), PARITY
    return found


def shown(
    found: TuneResult, width: int = 100, written: str = "hotlap.toml", *, everything: bool = False
) -> str:
    out = Console(width=width, force_terminal=False, highlight=False)
    with out.capture() as capture:
        tune_text.show(out, found, Path(written) if written else None, everything=everything)
    return capture.get()


def test_the_table_names_each_status_and_the_final_figure() -> None:
    text = shown(result(), everything=True)
    for part in ("no_grad_eval", "kept", "boom", "not applicable", "1.50x", "losses equal"):
        assert part in text
    assert "CUDA" not in shown(result())


def test_the_parity_of_the_only_row_is_said_once() -> None:
    found = result()
    assert shown(found).count("losses equal") == 1
    found.final_parity = replace(PARITY, reason="losses equal in all 200 steps")
    assert shown(found).count("losses equal") == 2
    out = Console(width=100, force_terminal=False)
    with out.capture() as capture:
        tune_text.show_outcome(out, result(), None)
    assert capture.get().count("losses equal") == 1, "there is no table"


def test_where_the_time_of_a_plain_step_goes_is_said_first() -> None:
    found = result()
    phases = {"data": {"mean": 0.006}, "forward": {"mean": 0.003}, "saving": {"mean": 0.0001}}
    found.profile = decode(ProfilePayload, {"step": {"mean": 0.01}, "phases": phases})
    text = " ".join(shown(found).split())
    assert text.startswith("a step of the plain script, profiled: 10.0 ms: 60% data loading, ")
    assert "30% forward" in text
    assert "saving" not in text
    found.asleep = True
    assert "profiled, with sleeping threads: 10.0 ms" in " ".join(shown(found).split())


@pytest.mark.parametrize(("loaders", "unit"), [(1, "step"), (0, "step"), (1, "epoch")])
def test_what_a_figure_of_plain_steps_leaves_out_is_said(loaders: int, unit: str) -> None:
    found = result()
    assert found.final is not None
    found.final = replace(found.final, unit=unit)
    seen = {"step": {"mean": 0.01}, "phases": {}, "facts": {"loaders": loaders}}
    found.profile = decode(ProfilePayload, seen)
    left_out = "evaluations and checkpoints left out" in " ".join(shown(found).split())
    assert left_out is (bool(loaders) and unit == "step")


@pytest.mark.parametrize(
    ("stalls", "unit", "words"),
    [
        (0.05, "step", "67% of the profiled time was in a few steps"),
        (0.05, "epoch", ""),
        (0.0, "step", ""),
    ],
)
def test_what_a_gain_in_plain_steps_is_over_the_whole_is_said_where_others_take_much(
    stalls: float, unit: str, words: str
) -> None:
    found = result()
    assert found.final is not None
    found.final = replace(found.final, unit=unit)
    phases = {
        "forward": {"mean": 0.024, "p10": 0.02, "p90": 0.03, "usual": 0.024},
        "other": {"mean": 0.001 + stalls, "p10": 0.001, "p90": 0.001, "usual": 0.001},
        "evaluation": {"mean": stalls / 50},
    }
    seen = {"step": {"mean": 0.025 + 51 * stalls / 50}, "phases": phases}
    found.profile = decode(ProfilePayload, seen)
    text = " ".join(shown(found).split())
    assert words in text
    assert ("the whole is 1.12x as fast" in text) is bool(words)


def test_a_line_says_what_the_time_went_to() -> None:
    found = result()
    found.seconds = 180.0
    ran, unused = ProcessTimes((), 0.0, 4.0, 9.0, 3.0), ProcessTimes(("tf32",), 5.0, None, 9.0, 0.0)
    found.time_use = TimeUse(18.0, 72.0, 81.0, 9.0, (ran, unused))
    line = "10% profiling, 40% starting processes, 45% racing, 5% other"
    assert f"{line} " in " ".join(shown(found).split())
    assert "ran no race" not in shown(found)
    spent = tune_text.document(found, None)["time_spent"]
    assert f"{line}; 1 of 2 processes ran no race" in spent
    found.time_use = replace(found.time_use, processes=(ran,))
    assert "ran no race" not in tune_text.document(found, None)["time_spent"]


def test_what_was_not_allowed_is_said_in_plain_words() -> None:
    found = result()
    found.outcomes.append(Outcome("tf32", Status.NOT_ALLOWED, "precision numerics"))
    text = " ".join(shown(found).split())
    assert "1 would change numerics or the training (--allow)" in text


def test_rows_build_on_what_was_kept_alone() -> None:
    found = result()
    assert "on top of the techniques kept above it" in shown(found)
    found.outcomes = [Outcome("tf32", Status.NOT_FASTER, "", {}, race(1.0))]
    found.final = found.final_parity = None
    assert "on top of" not in shown(found)


def test_a_load_that_has_passed_is_not_said_to_last() -> None:
    found = result()
    found.notes, found.load = [SLEEPING_THREADS], 0.0
    text = " ".join(shown(found).split())
    assert "background load: 0.0 of" in text
    assert "since other programs used the cores, for a time at least;" in text


def test_the_race_of_sleeping_threads_is_left_out_of_what_is_said_of_all_others() -> None:
    found = result()
    found.notes = [SLEEPING_THREADS]
    assert "both sides ran with OpenMP threads" in " ".join(shown(found).split())
    found.outcomes.append(Outcome("sleeping_threads", Status.INCONCLUSIVE, "", {}, race(1.1)))
    words = "all races but that of sleeping_threads ran with OpenMP threads that sleep"
    assert words in " ".join(shown(found).split())
    assert words in str(tune_text.document(found, None)["notes"])


def test_a_recipe_is_used_with_what_its_figures_hold_with() -> None:
    found = result()
    steps = dict(tune_text.next_steps(found, Path("hotlap.toml")))
    assert steps["use it:"] == "hotlap run python train.py"
    found.notes = [SLEEPING_THREADS]
    steps = dict(tune_text.next_steps(found, Path("hotlap.toml")))
    assert steps["use it:"] == "OMP_WAIT_POLICY=passive KMP_BLOCKTIME=0 hotlap run python train.py"
    assert "leave the variables out once" in steps[""]
    steps = dict(tune_text.next_steps(found, None))
    assert steps["as raced:"] == "OMP_WAIT_POLICY=passive KMP_BLOCKTIME=0 python train.py"


@pytest.mark.parametrize("status", [Status.NOT_FASTER, Status.SAME])
def test_threads_that_gain_nothing_by_sleep_are_not_advised_to_sleep(status: Status) -> None:
    found = result()
    found.notes = [SLEEPING_THREADS]
    found.outcomes.append(Outcome("sleeping_threads", status, "", {}, race(0.6)))
    steps = dict(tune_text.next_steps(found, Path("hotlap.toml")))
    assert steps["use it:"] == "hotlap run python train.py"
    assert "" not in steps
    assert "as raced:" not in dict(tune_text.next_steps(found, None))


def open_row(name: str, seconds: float = 30.0) -> Outcome:
    found = replace(race(1.1), verdict=Verdict.INCONCLUSIVE)
    reason = "no verdict within its time"
    return Outcome(name, Status.INCONCLUSIVE, reason, {}, found, seconds_needed=seconds)


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (Verdict.FASTER, "1.50x [1.42, 1.58] faster with the whole recipe"),
        (Verdict.INCONCLUSIVE, "inconclusive: the whole recipe is not confirmed"),
        (Verdict.SLOWER, "slower: the whole recipe is not confirmed"),
        (Verdict.SAME, "not faster: the whole recipe is not confirmed"),
    ],
)
def test_only_a_recipe_that_is_faster_as_a_whole_is_confirmed(verdict: Verdict, words: str) -> None:
    found = result()
    found.final = replace(race(1.5), verdict=verdict)
    assert words in shown(found)
    assert found.confirmed is (verdict is Verdict.FASTER)
    broken = replace(PARITY, kept=False, reason="off by 3 %")
    found.final_parity = broken
    assert "broke parity" in shown(found)
    assert not found.confirmed
    steps = dict(tune_text.next_steps(found, Path("hotlap.unconfirmed.toml")))
    assert steps["written:"].endswith("(not confirmed: it broke parity)")
    assert "use it:" not in steps


def test_an_interrupt_and_a_failure_say_that_nothing_was_verified() -> None:
    found = result()
    found.final = None
    found.interrupted = True
    assert "interrupted: the combined recipe was not verified" in shown(found)
    found.interrupted, found.failed = False, "out of memory"
    assert "no recipe was verified: out of memory" in shown(found)


def test_the_next_commands_are_printed_in_full() -> None:
    text = shown(result(), width=60)
    assert "use it:     hotlap run python train.py" in text
    assert "settle it" not in text
    found = result()
    found.final = None
    found.outcomes = [open_row("tf32"), Outcome("channels_last", Status.NOT_RACED, OUT_OF_TIME)]
    found.needed, found.settles = 240.0, ["tf32", "channels_last"]
    text = shown(found, width=60, written="")
    assert "no recipe, as nothing was kept" in text
    pasted = " ".join(text.replace("\\\n", "").split())
    assert "hotlap tune --budget 4m --only tf32,channels_last python train.py" in pasted
    assert "about 30 s more would settle it" in shown(found, width=200, written="")
    beside = shown(result(), written="hotlap.unconfirmed.toml")
    assert "hotlap run --recipe hotlap.unconfirmed.toml python train.py" in beside


def test_a_command_of_many_techniques_fits_into_a_terminal_and_can_be_pasted() -> None:
    found = result()
    found.final = None
    names = ["no_grad_eval", "fused_pointwise", "no_copy_from_numpy", "cpu_threads", "tf32",
             "mixed_precision", "channels_last", "persistent_workers"]  # fmt: skip
    found.outcomes = [open_row(name) for name in names]
    found.needed, found.settles = 1020.0, names
    text = shown(found, width=80, written="")
    lines = text[text.index("settle it:") :].splitlines()
    many = next(i for i, line in enumerate(lines) if not line.endswith("\\")) + 1
    assert all(len(line) <= 80 for line in lines[:many])
    typed = "\n".join(lines[:many]).removeprefix("settle it:").replace("\\\n", "")
    words = shlex.split(typed)
    assert words[:4] == ["hotlap", "tune", "--budget", "17m"]
    assert words[-2:] == ["python", "train.py"]
    options = command_line.make_context("tune", words[2:]).params
    assert list(options["only"]) == names


def test_the_next_command_settles_what_can_be_or_waits_for_a_calm_machine() -> None:
    found = result()
    found.final = None
    far = open_row("cpu_threads", 1459.0)
    found.outcomes = [open_row("tf32", 40.0), far, open_row("channels_last", math.inf)]
    found.needed, found.settles = 120.0, ["tf32"]
    text = shown(found, width=200, written="")
    assert "hotlap tune --budget 120s --only tf32 python train.py" in text
    assert text.count("more than 15 min at this noise: race it on a calmer machine") == 2
    assert "24 min" not in text
    found.outcomes, found.needed, found.settles = [far], 0.0, []
    text = shown(found, width=200, written="")
    assert "hotlap tune --wait 10m --only cpu_threads python train.py" in text
    assert "--budget" not in text


def test_a_load_dependent_row_says_what_to_run_when_it_is_calm() -> None:
    found = result()
    asleep = replace(race(1.2), passive_wait=True)
    row = Outcome("cpu_threads", Status.LOAD_DEPENDENT, "x", {"threads": 1}, asleep)
    found.outcomes.append(row)
    text = shown(found)
    assert "hotlap tune --only cpu_threads python train.py" in text
    variables = "OMP_WAIT_POLICY=passive KMP_BLOCKTIME=0 OMP_NUM_THREADS=1"
    assert f"under load: {variables} hotlap run python train.py" in " ".join(text.split())


def test_what_was_raced_with_sleeping_threads_is_used_with_them_and_says_so() -> None:
    found = result()
    found.notes, found.final = [SLEEPING_THREADS], replace(race(1.5), passive_wait=True)
    said = "1.50x [1.42, 1.58] faster with the whole recipe, both sides with sleeping threads"
    assert said in " ".join(shown(found).split())
    asleep, run = "OMP_WAIT_POLICY=passive KMP_BLOCKTIME=0", "hotlap run python train.py"
    row = Outcome(
        "cpu_threads", Status.LOAD_DEPENDENT, "x", {"threads": 1},
        replace(race(1.2), passive_wait=True),
    )  # fmt: skip
    found.outcomes.append(row)
    steps = dict(tune_text.next_steps(found, Path("hotlap.toml")))
    assert steps["use it:"] == f"{asleep} {run}"
    assert steps["under load:"] == f"{asleep} OMP_NUM_THREADS=1 {run}"
    found.outcomes[-1] = Outcome("sleeping_threads", Status.LOAD_DEPENDENT, "x", {}, race(4.6))
    steps = dict(tune_text.next_steps(found, Path("hotlap.toml")))
    assert steps["use it:"] == f"{asleep} {run}"
    assert "under load:" not in steps


def test_what_is_run_under_load_names_the_recipe_that_was_written() -> None:
    found = result()
    row = Outcome("cpu_threads", Status.LOAD_DEPENDENT, "x", {"threads": 1}, race(1.36))
    found.outcomes.append(row)
    steps = dict(tune_text.next_steps(found, Path("hotlap.unconfirmed.toml")))
    run = "hotlap run --recipe hotlap.unconfirmed.toml python train.py"
    assert steps["use it:"] == run
    assert steps["under load:"] == f"OMP_NUM_THREADS=1 {run}"


def test_a_gain_under_load_alone_is_named_with_its_command_and_not_denied() -> None:
    found = result()
    found.final = found.final_parity = None
    row = Outcome("cpu_threads", Status.LOAD_DEPENDENT, "x", {"threads": 1}, race(1.36))
    weaker = replace(row, values={"threads": 2}, race=race(1.1))
    found.outcomes = [Outcome("tf32", Status.NOT_FASTER, "", {}, race(1.0)), weaker, row]
    said = tune_text.headline(found)
    rows = "cpu_threads(1) 1.36x [1.29, 1.43], cpu_threads(2) 1.10x [1.04, 1.16]"
    assert said == f"nothing was kept; faster while other programs use the cores: {rows}"
    steps = tune_text.document(found, None)["next_steps"]
    assert "OMP_NUM_THREADS=1 python train.py" in steps


def test_what_was_kept_stays_on_while_the_others_are_settled() -> None:
    found = result()
    found.outcomes.append(open_row("tf32"))
    found.needed, found.settles = 240.0, ["tf32"]
    text = " ".join(shown(found, width=200).split())
    stays = "(no_grad_eval stays on: the others"
    assert f"--budget 4m --base hotlap.toml --only tf32 python train.py {stays}" in text
    assert "stays on" not in str(tune_text.document(found, None)["next_steps"])
    text = " ".join(shown(found, width=200, written="fast.toml").split())
    assert "--base fast.toml --recipe fast.toml --only tf32 python train.py" in text
    found.final = None
    text = " ".join(shown(found, width=200).split())
    assert "--only no_grad_eval,tf32 python train.py" in text, "nothing is confirmed"
    assert "stays on" not in text, "it is raced again"
    found.outcomes = [open_row("tf32")]
    assert "stays on" not in shown(found)


def test_a_tune_on_top_of_a_recipe_that_keeps_nothing_goes_on_from_the_same() -> None:
    found = result()
    found.outcomes, found.final = [open_row("tf32")], None
    found.needed, found.settles = 240.0, ["tf32"]
    found.base, found.base_recipe = {"no_grad_eval": Kept()}, "hotlap.toml"
    text = " ".join(shown(found, width=200, written="").split())
    assert "nothing was kept; hotlap.toml stays as it is" in text
    assert "--base hotlap.toml --only tf32 python train.py (no_grad_eval stays on" in text


def test_what_is_raced_again_is_raced_on_top_of_the_recipe_that_the_tune_began_with() -> None:
    found = result()
    found.outcomes.append(open_row("tf32"))
    found.final, found.needed, found.settles = None, 240.0, ["tf32"]
    found.base, found.base_recipe = {"fused_optimizer": Kept()}, "my recipes/fast.toml"
    text = " ".join(shown(found, width=200).split())
    base = "--base 'my recipes/fast.toml' --recipe 'my recipes/fast.toml'"
    assert f"{base} --only no_grad_eval,tf32 python train.py" in text
    assert "(fused_optimizer stays on: the others" in text


def test_a_recipe_whose_path_has_a_space_is_quoted() -> None:
    steps = dict(tune_text.next_steps(result(), Path("my recipes/fast.toml")))
    assert steps["use it:"] == "hotlap run --recipe 'my recipes/fast.toml' python train.py"


def test_of_sleeping_threads_and_what_was_raced_with_them_one_command_has_both() -> None:
    found = result()
    sleep = Outcome("sleeping_threads", Status.LOAD_DEPENDENT, "x", {}, race(2.4))
    asleep = replace(race(1.36), passive_wait=True)
    more = Outcome("cpu_threads", Status.LOAD_DEPENDENT, "x", {"threads": 1}, asleep)
    found.notes = [SLEEPING_THREADS]
    assert tune_text.next_steps(found, None)[-1] == (
        "as raced:", "OMP_WAIT_POLICY=passive KMP_BLOCKTIME=0 python train.py"
    )  # fmt: skip
    found.outcomes = [replace(sleep, status=Status.INCONCLUSIVE)]
    assert tune_text.next_steps(found, None)[-2] == (
        "race it:",
        "hotlap race python train.py -- env OMP_WAIT_POLICY=passive KMP_BLOCKTIME=0 "
        "python train.py",
    )
    found.outcomes = [sleep]
    asleep = (
        "hotlap race python train.py -- env OMP_WAIT_POLICY=passive KMP_BLOCKTIME=0 python train.py"
    )
    assert tune_text.next_steps(found, None)[1:] == [
        ("under load:", "OMP_WAIT_POLICY=passive KMP_BLOCKTIME=0 python train.py"),
        ("when calm:", asleep),
    ]
    found.outcomes = [sleep, more]
    variables = "OMP_WAIT_POLICY=passive KMP_BLOCKTIME=0 OMP_NUM_THREADS=1"
    assert tune_text.next_steps(found, None)[1:] == [
        ("under load:", f"{variables} python train.py"),
        ("when calm:", f"hotlap tune --only cpu_threads python train.py\n{asleep}"),
    ]


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], TuneResult]:
    """A tune of a notebook that ran with sleeping threads, with an open row."""
    monkeypatch.chdir(tmp_path)

    def tuned(name: str) -> TuneResult:
        cell = {"cell_type": "code", "source": "x = 1"}
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(json.dumps({"cells": [cell]}), "utf-8")
        found = TuneResult(normalise((name,)), 145.0)
        found.outcomes = [Outcome("tf32", Status.NOT_RACED, OUT_OF_TIME)]
        found.needed, found.settles = 95.0, ["tf32"]
        found.notes = [SLEEPING_THREADS]
        return found

    return tuned


def test_a_notebook_is_run_as_notebooks_are(notebook: Callable[[str], TuneResult]) -> None:
    assert tune_text.next_steps(notebook("train.ipynb"), None)[1:] == [
        ("settle it:", "hotlap tune --budget 95s --only tf32 train.ipynb"),
        ("as raced:",
         f"{FIRST_CELL}\n%env OMP_WAIT_POLICY=passive\n%env KMP_BLOCKTIME=0\n"
         "# or the whole notebook, in a shell\n"
         f"OMP_WAIT_POLICY=passive KMP_BLOCKTIME=0 {EXECUTE} train.ipynb"),
    ]  # fmt: skip
    text = shown(notebook("train.ipynb"), written="")
    assert f"as raced:   {FIRST_CELL}\n            %env OMP_WAIT_POLICY=passive\n" in text


def test_a_recipe_that_looks_slower_is_not_advised() -> None:
    found = result()
    assert "use it:" in shown(found, width=200)
    slower = replace(found.final.estimate, ratio=0.96, low=0.87, high=1.07)
    found.final = replace(found.final, verdict=Verdict.INCONCLUSIVE, estimate=slower)
    text = shown(found, width=200)
    assert "not confirmed" in text
    assert "use it:" not in text
    assert "try it:" not in text


def test_next_steps_of_a_live_session_are_magics(
    notebook: Callable[[str], TuneResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/me/my train.ipynb")
    found = notebook(".hotlap/session-tune.ipynb")
    assert tune_text.document(found, None)["next_steps"] == [
        "%%hotlap tune --budget 95s --only tf32",
        f"{FIRST_CELL}\n%env OMP_WAIT_POLICY=passive\n%env KMP_BLOCKTIME=0",
    ]
    assert tune_text.next_steps(found, Path("hotlap.toml"))[1] == (
        "try it:", "OMP_WAIT_POLICY=passive KMP_BLOCKTIME=0 hotlap run 'my train.ipynb'"
    )  # fmt: skip


def test_what_was_not_raced_for_want_of_time_is_named() -> None:
    found = TuneResult(("python", "train.py"))
    found.outcomes = [Outcome("tf32", Status.NOT_RACED, OUT_OF_TIME)]
    found.needed, found.settles = 95.0, ["tf32"]
    text = shown(found, written="")
    assert "nothing was raced" in text
    assert "no time left for tf32" in text
    assert "hotlap tune --budget 95s --only tf32 python train.py" in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_nothing_but_commands_is_wider_than_the_terminal(width: int) -> None:
    found = result()
    found.outcomes += [open_row("persistent_workers"), open_row("channels_last")]
    found.notes = ["no time for fresh processes: the final race went on in live ones " * 2]
    found.needed, found.settles = 600.0, ["channels_last"]
    for line in shown(found, width).splitlines():
        assert len(line) <= width or "hotlap " in line


def report(found: TuneResult) -> str:
    document = plain(tune_text.document(found, None) | {"verb": "tune", "hotlap": "1"})
    return html.page(document, "--- a/t.py\n+++ b/t.py\n@@ -1 +1 @@\n-a\n+b\n")


def test_an_interval_without_an_end_is_never_printed() -> None:
    found = result()
    endless = replace(race(2.0), estimate=Estimate(2.0, 0.0, math.inf, 2, 0.95))
    found.outcomes[0] = replace(found.outcomes[0], race=endless)
    text = shown(found) + report(found)
    assert "inf" not in text
    assert "[0.00" not in text


@pytest.mark.parametrize(
    ("low", "ratio", "high", "words"),
    [
        (0.03, 0.77, 17.49, "not measured: the machine was too noisy"),
        (0.0, 1.44, math.inf, "not measured: the machine was too noisy"),
        (0.9, 0.96, 1.02, "0.96x [0.90, 1.02]"),
        (0.8, 0.9, 0.95, "0.90x [0.80, 0.95]"),
        (1.3, 1.44, 1.6, "1.44x [1.30, 1.60]"),
    ],
)
def test_an_upper_bound_is_printed_where_it_bounds(
    low: float, ratio: float, high: float, words: str
) -> None:
    found = result()
    found.upper_bounds = [UpperBound("data_free", "bound", Estimate(ratio, low, high, 6, 0.95))]
    assert f"bound: {words}\n" in shown(found)


def test_an_upper_bound_of_few_pairs_says_so() -> None:
    found = result()
    found.upper_bounds = [UpperBound("data_free", "bound", Estimate(1.4, 0.5, 4.0, 3, 0.95))]
    assert "bound: too few pairs\n" in shown(found)
    assert "yet" not in shown(found)


def test_json_holds_only_json() -> None:
    found = result()
    found.final = race(float("inf"))
    document = tune_text.document(found, Path("hotlap.toml"))
    json.loads(json.dumps(plain(document), allow_nan=False))
    assert document["recipe"] == "hotlap.toml"


def test_the_html_report_is_whole_and_escapes_what_programs_say() -> None:
    found = result()
    found.isolation = "landlock"
    text = report(found)
    assert "isolation: landlock" in text
    assert text.rstrip().endswith("</html>")
    assert "boom &lt;b&gt;" in text
    assert "1.50x" in text
    assert '<span class="add">+b</span>' in text
    assert "http" not in text  # nothing is loaded from elsewhere


def test_nothing_settled_is_not_called_nothing_gained() -> None:
    found = result()
    found.final = found.final_parity = None
    found.outcomes = [open_row("loader_workers"), open_row("cpu_threads")]
    assert tune_text.headline(found).startswith("inconclusive: the time was too short")
    found.outcomes.append(Outcome("tf32", Status.NOT_FASTER, "", {}, race(1.0)))
    assert tune_text.headline(found) == (
        "nothing was kept; for 2 techniques the time was too short"
    )
    found.outcomes = [Outcome("tf32", Status.NOT_FASTER, "", {}, race(1.0))]
    assert tune_text.headline(found).startswith("nothing that was raced")


@pytest.mark.parametrize("width", [60, 80])
def test_advice_among_the_next_steps_hangs_below_its_column(width: int) -> None:
    found = result()
    found.outcomes.append(open_row("cpu_threads"))
    found.load, found.settles = 1.8, ["cpu_threads"]
    lines = shown(found, width).splitlines()
    at = next(i for i, line in enumerate(lines) if "or the same with" in line)
    assert all(line.startswith(" " * 12) for line in lines[at : at + 2] if line.strip())
    assert max(map(len, lines[at:])) <= width


def test_the_outcome_alone_is_short() -> None:
    out = Console(width=100, force_terminal=False, highlight=False)
    with out.capture() as capture:
        tune_text.show_outcome(out, result(), Path("hotlap.toml"))
    text = capture.get()
    for part in ("1.50x", "kept: no_grad_eval", "written:    hotlap.toml (confirmed)"):
        assert part in text
    assert len(text.splitlines()) <= 5


def problem(name: str, place: str, expected: float = 0.2) -> Finding:
    remedy = Remedy(name, f"{name} is missing", ("evaluation",), place, 1.3, expected)
    return Finding(f"seen: {name}", place, "x = 1", 0.3, 1.43, (remedy,))


def test_what_no_race_judged_is_left_to_the_user_the_largest_first() -> None:
    found = result()
    settled = Outcome("no_grad_eval", Status.NOT_FASTER, "", {}, race(1.0))
    found.outcomes = [settled, open_row("grads_to_none")]
    found.advice = advice(
        [problem("no_grad_eval", "t.py:9"), problem("grads_to_none", "t.py:4"),
         problem("fused_attention", "t.py:5", 0.1), problem("dynamic_padding", "t.py:6")],
        None, found, Path(),
    )  # fmt: skip
    text = shown(found, 100)
    rows = [line for line in text.splitlines() if line.startswith("  - ")]
    assert rows == [
        "  - dynamic_padding [t.py:6]: 30% of a step (at most 1.43x); dynamic_padding is missing",
        "  - fused_attention [t.py:5]: 30% of a step (at most 1.43x); fused_attention is missing",
    ]
    assert "dynamic_padding" in report(found)


def test_a_long_list_of_what_is_left_ends_with_the_command_that_shows_all() -> None:
    found = result()
    names = ["fused_attention", "dynamic_padding", "graph_kept", "a", "b", "c", "d"]
    found.advice = advice([problem(name, "t.py:5") for name in names], None, found, Path())
    assert "  - 2 more: hotlap profile" in shown(found, 100)


def findings_text(found: TuneResult, *findings: Finding) -> str:
    profile: Any = SimpleNamespace(findings=findings, problems=findings, options=())
    out = Console(width=100, force_terminal=False, highlight=False)
    with out.capture() as capture:
        tune_text.show_findings(out, profile, found)
    return capture.get()


def test_where_nothing_was_raced_the_findings_stand_in_full() -> None:
    found = result()
    assert findings_text(found, problem("mixed_precision", "t.py:5")) == ""
    found.outcomes = []
    assert "at t.py:5" in findings_text(found, problem("mixed_precision", "t.py:5"))


def test_without_a_known_problem_a_tune_names_the_line_that_takes_most() -> None:
    line = SimpleNamespace(place="optim.py:12", text="u, _, v = svd(update)", share=0.9, samples=99)
    profile: Any = SimpleNamespace(
        problems=(), has_few_steps=False, steps=100, backward_by_line=(),
        lines={"optimizer": [line]}, phases=(SimpleNamespace(name="optimizer", share=0.8),),
    )  # fmt: skip
    out = Console(width=100, force_terminal=False, highlight=False)
    with out.capture() as capture:
        tune_text.show_findings(out, profile, result())
    said = " ".join(capture.get().split())
    assert "No known problem costs 2 % of a step most time goes to optim.py:12 (72% of a" in said
    assert "u, _, v = svd(update)" in said


def test_what_no_time_was_left_for_says_why_where_that_is_known() -> None:
    found = result()
    why = "with the epoch that fills it, it needs about 301 s, and 37 s were left"
    reason = f"{OUT_OF_TIME}: {why}"
    found.outcomes.append(Outcome("cached_dataset", Status.NOT_RACED, reason))
    text = " ".join(shown(found, 200).split())
    assert f"left out: no time left for cached_dataset ({why}); 1 not applicable" in text


def test_what_a_failed_tune_did_not_reach_is_named_and_settled_where_races_ran() -> None:
    found = result()
    found.final, found.failed = None, "out of luck"
    found.outcomes += [
        Outcome("fused_optimizer", Status.NOT_RACED, ENDED),
        Outcome("channels_last", Status.NOT_RACED, OUT_OF_TIME),
    ]
    found.needed, found.settles = 95.0, ["fused_optimizer", "channels_last"]
    text = " ".join(shown(found, 200).split())
    assert (
        "left out: no time left for channels_last; not reached: fused_optimizer; 1 not applicable"
        in text
    )
    assert "--only no_grad_eval,fused_optimizer,channels_last python" in text
    found.outcomes = found.outcomes[2:]
    assert "settle it" not in shown(found), "the script itself failed: that is to be seen to first"
