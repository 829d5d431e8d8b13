"""The outcome of a tune, as a person and as a program reads it."""

import json

from rich.console import Console

from hotlap.cli.common import plain
from hotlap.core.recipe import Recipe
from hotlap.report import tune_html, tune_text
from hotlap.trial.parity import Parity
from hotlap.trial.race import RaceResult
from hotlap.trial.stats import Estimate, Verdict
from hotlap.tune.result import OUT_OF_TIME, Ceiling, Outcome, Status, TuneResult

PARITY = Parity(True, "bitwise", 100, 0.0, 0.0, "losses equal in all 100 steps")


def race(ratio: float) -> RaceResult:
    estimate = Estimate(ratio, ratio * 0.95, ratio * 1.05, 12, 0.95)
    return RaceResult(
        estimate, Verdict.FASTER, "epoch", True, 0.02, 0.02 / ratio, ratio, 1.0, 0, 0, 9
    )


def result() -> TuneResult:
    found = TuneResult(("python", "train.py"), floor=race(1.0), deterministic=True)
    found.ceilings = [Ceiling("data_free", "if data were free", race(3.0).estimate)]
    found.outcomes = [
        Outcome("no_grad_eval", Status.KEPT, PARITY.reason, {}, race(1.5), PARITY),
        Outcome("fused_pointwise", Status.CRASHED, "boom <b>", {"mode": "default"}),
        Outcome("tf32", Status.NOT_APPLICABLE, "the model is not on a CUDA device"),
    ]
    found.final, found.final_parity = race(1.5), PARITY
    return found


def test_a_recipe_that_is_slower_as_a_whole_is_not_written() -> None:
    found = result()
    found.final = race(1.02)
    assert "1.02x [0.97, 1.07] not shown to be faster with the whole recipe" in shown(found)
    assert found.confirmed
    found.final = race(0.9)
    assert "the whole recipe is slower and was not written" in shown(found)
    assert not found.confirmed


def shown(found: TuneResult, width: int = 100, *, everything: bool = False) -> str:
    out = Console(width=width, force_terminal=False, highlight=False)
    with out.capture() as capture:
        tune_text.show(out, found, everything=everything)
    return capture.get()


def test_the_table_names_each_fate_and_the_final_figure() -> None:
    text = shown(result(), everything=True)
    for part in ("no_grad_eval", "kept", "boom", "not applicable", "1.50x", "losses equal"):
        assert part in text
    assert "CUDA" not in shown(result())


def test_what_was_not_raced_for_want_of_time_is_said() -> None:
    found = TuneResult(("python", "train.py"))
    found.outcomes = [Outcome("tf32", Status.NOT_RACED, OUT_OF_TIME)]
    found.needed = 95.0
    assert "nothing was raced" in shown(found)
    assert "too short to race anything: about --budget 95s would do" in shown(found)
    some = result()
    assert "--budget" not in shown(some)
    some.needed = 240.0
    assert "too short to race everything: about --budget 240s would do" in shown(some)


def test_json_holds_only_json() -> None:
    found = result()
    found.final = race(float("inf"))
    json.loads(json.dumps(plain(tune_text.document(found)), allow_nan=False))


def test_the_html_report_is_whole_and_escapes_what_programs_say() -> None:
    html = tune_html.render(result(), Recipe())
    assert html.rstrip().endswith("</html>")
    assert "boom &lt;b&gt;" in html
    assert "1.50x" in html
