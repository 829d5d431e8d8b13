"""The HTML pages in a browser: nothing wider than the screen, no serious accessibility fault."""

import math
import random
import re
from dataclasses import asdict
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from browser import BROWSER, measure
from hotlap.batch.batch_result import BatchFacts, BatchResult, SizeResult
from hotlap.cli.common import plain
from hotlap.optim.sweep import Sweep
from hotlap.plan.cluster import PRESETS
from hotlap.plan.layout_search import search
from hotlap.plan.reading import read_shape
from hotlap.profile.model import Finding, Headroom, Phase, Profile, Rank, Remedy
from hotlap.reporting import html
from hotlap.reporting.findings_text import AT_MOST
from hotlap.reporting.search_view import sweep_picture

WIDTHS = (390, 768, 1280)
LONG = "python " + "a_very_long_path_without_any_space/" * 6 + "train.py --lr 0.1"


def estimate(ratio: float, spread: float = 0.1) -> dict[str, Any]:
    return {
        "ratio": ratio,
        "low": ratio - spread,
        "high": ratio + spread,
        "pairs": 12,
        "level": 0.95,
    }


def race(ratio: float) -> dict[str, Any]:
    return {"estimate": estimate(ratio), "fresh": None, "memory": 1.1, "verdict": "faster"}


def row(name: str, status: str, ratio: float | None, reason: str = "") -> dict[str, Any]:
    return {"technique": name, "values": {}, "joined": [], "status": status, "reason": reason,
            "race": race(ratio) if ratio else None, "load": 0.7}  # fmt: skip


def tune() -> dict[str, Any]:
    draw = random.Random(1)
    curve = [2.3 * math.exp(-i / 200) + draw.random() / 5 for i in range(500)]
    return {
        "verb": "tune", "hotlap": "0.1.0", "command_line": LONG, "date": "2026-01-02 10:00",
        "machine": "a CPU, 2 cores", "isolation": {"tier": "overlay"}, "final": race(1.5),
        "final_steps": {"plain": 0.1, "tuned": 0.066},
        "final_parity": {"kept": True, "reason": "losses match"},
        "headline": "1.50x [1.40, 1.60] faster with the whole recipe", "notes": ["a note"],
        "noise_floor": race(1.0), "losses": {"plain": curve, "tuned": [v + 0.02 for v in curve]},
        "outcomes": [row("loader_workers", "kept", 1.4, "because " * 20),
                     row("channels_last", "same", 1.0), row("tf32", "crashed", None, "x" * 90),
                     row("compile", "not applicable", None, "no reason")],
        "phases": {"data": 0.05, "loader": 0.001, "forward": 0.02, "backward": 0.02, "other": 0.01},
        "memory_by_owner": {"parameters": 10_000_000, "activations": 400_000_000, "other": 0},
        "advice": [{"technique": "batch_size", "says": "say", "place": "train.py:3",
                    "lines": ["x" * 150]}],
        "next_steps": [f"hotlap run {LONG}"],
    }  # fmt: skip


def profile() -> dict[str, Any]:
    """The document of a profile, with a problem and an option."""
    worker = Remedy("loader_workers", "w " * 60, ("data",), "train.py:3", 2.5, 0.5)
    says = "AdamW runs an operation for each parameter"
    fused = Remedy("fused_optimizer", says, ("optimizer",), "", 1.07, 0.05)
    sleepers = Remedy("sleeping_threads", "threads spin", ("forward",), "", 1.0, 0.1)
    found = Profile(
        steps=40, step=0.08, step_p10=0.07, step_p90=0.09, device="cpu", lines={},
        phases=(Phase("data", 0.05, 0.04, 0.06, 0.6), Phase("forward", 0.03, 0.02, 0.04, 0.4)),
        samples_per_second=1234.0, tokens_per_second=98765.0, memory_by_phase={},
        memory_by_owner={"parameters": 1000}, peak_memory=2000,
        headroom=Headroom(2e9, 5e10, "float32", 1e11),
        findings=(
            Finding("waiting for data: 60 % of a step", "train.py:3", "y" * 200, 0.6, 2.5,
                    (worker,)),
            Finding("threads waited for a core 80% of the time; threads spin", "", "", 0.0, 1.0,
                    (sleepers,)),
            Finding("the optimizer: 7 % of a step", "train.py:9", "", 0.07, 1.07, (fused,),
                    problem=False),
        ),
        command=LONG, world=2,
        ranks=tuple(Rank(n, 40, 0.08, {"data": 0.05}, 0.02 * n, 0.01) for n in range(2)),
    )  # fmt: skip
    return found.to_json() | {"verb": "profile", "hotlap": "0.1.0"}


def one_race() -> dict[str, Any]:
    return {"verb": "race", "hotlap": "0.1.0", "commands": [[LONG], ["b"]], "verdict": "faster",
            "a_step": 0.1, "b_step": 0.05, **race(2.0)}  # fmt: skip


def batch() -> dict[str, Any]:
    script = BatchFacts(batch=32)
    sizes = {
        2**n: SizeResult(2**n, fits=n < 8, rate=320.0 * n, ratio=n / 5, low=n / 6, high=n / 4,
                         step=0.1 / n, memory=10**n, why="" if n < 8 else "out of memory " * 9)
        for n in range(1, 9)
    }  # fmt: skip
    found = BatchResult(script, sizes, largest=128, fastest=128, bound="memory")
    return {"verb": "batch", "hotlap": "0.1.0", "arguments": ["batch", LONG], **found.to_json()}


def lr() -> dict[str, Any]:
    rates = [1e-6 * 1.1**i for i in range(150)]
    losses = [2.3 - 1.5 * math.exp(-((i - 110) ** 2) / 400) for i in range(149)] + [math.nan]
    found = Sweep(2.3, tuple(rates), tuple(losses), "diverged")
    return {"verb": "lr", "hotlap": "0.1.0", "arguments": ["lr", LONG], "failure": "",
            **plain(found.to_json())}  # fmt: skip


def plan(gpus: int = 64) -> dict[str, Any]:
    shape, cluster = read_shape("llama3-8b"), PRESETS["h100"].having(gpus)
    found = asdict(search(shape, cluster, 512))
    run = {"plan": found["closest"][0], "ranks": [{"stage": 0, "peak": 5e9}], "problem": ""}
    shown = {"fitting": found["fitting"][:10], "closest": found["closest"][:10]}
    return {"verb": "plan", "hotlap": "0.1.0", "arguments": ["plan"], "model": "llama3-8b",
            "batch": 512, "unit": "tokens", "cluster": asdict(cluster), "verified": [run],
            **found, **shown}  # fmt: skip


def run_to_target(seconds: float) -> dict[str, Any]:
    curve = [{"seconds": seconds * i / 9, "steps": i, "value": 1 / (1 + i)} for i in range(10)]
    return {"time": {"seconds": seconds, "reached": True}, "best": 0.1, "steps": 9, "ended": False,
            "curve": curve}  # fmt: skip


def race_to_target() -> dict[str, Any]:
    return {
        "verb": "race", "hotlap": "0.1.0", "commands": [LONG.split(), LONG.split()],
        "target": {"metric": "val", "sign": "<=", "value": 0.2}, "verdict": "faster",
        "ratio": estimate(2.0), "pairs": [[run_to_target(8.0), run_to_target(4.0)]] * 3,
    }  # fmt: skip


def shrink() -> dict[str, Any]:
    rows = [
        {"name": f"prune to {keep}x + distil + quantise int8_dynamic", "front": keep < 0.5,
         "parameters": 100, "bytes": 1000, "latency": [1 / keep, 0.9 / keep, 1.1 / keep],
         "qualities": [0.9, 0.91], "quality": [0.9 + keep / 10, 0.01], "fails": ["latency"]}
        for keep in (0.25, 0.5)
    ]  # fmt: skip
    return {
        "verb": "shrink", "hotlap": "0.1.0", "job": {"model": "net:build"}, "candidates": rows,
        "original": {"parameters": 200, "bytes": 2000, "quality": 0.92, "milliseconds": 2.0},
        "written": {"name": rows[0]["name"]}, "skipped": [{"name": "int4", "why": "no GPU"}],
        "tested": {"original": 0.92, "qualities": [0.9, 0.91], "holds": True},
    }  # fmt: skip


PAGES = {
    "race to a target": html.page(race_to_target()),
    "shrink": html.page(shrink()),
    "tune": html.page(tune(), "--- a/t.py\n+++ b/t.py\n@@ -1 +1 @@\n-" + "a" * 200 + "\n+b\n",
                      index=True),
    "profile": html.page(profile()),
    "race": html.page(one_race()),
    "batch": html.page(batch()),
    "lr": html.page(lr()),
    "plan": html.page(plan()),
    "card": "<!doctype html><html lang=en><title>t</title><main><h1>n</h1>" + html.card(tune()),
    "index": html.history([{"file": "a.html", "when": "2026-01-02 10:00", "verb": "tune",
                            "command": LONG, "headline": "1.50x faster"}]),
}  # fmt: skip


@pytest.mark.parametrize("name", PAGES)
def test_a_page_stands_alone(name: str) -> None:
    assert not re.search(r"https?://|src=|@import|url\(", PAGES[name])


def test_a_page_says_what_was_found() -> None:
    for text in ("1.50x", "loader_workers", "[1.30, 1.50]", "data loading", "382 MiB", "a note",
                 "Left out: 1", "overlay", "hotlap run", "a CPU", "500 steps"):  # fmt: skip
        assert text in PAGES["tune"].replace("381.5 MiB", "382 MiB"), text
    assert "a step in the final race; its phases" in PAGES["tune"]
    assert "as profiled before the races: 101.0 ms a step, not corrected" in PAGES["tune"]
    found = tune()
    found["final"] = {**found["final"], "corrected": True}
    assert "in the final race, corrected for background load" in html.page(found)
    assert "B is faster" in PAGES["race"]
    for text in ("Batch 128", "largest that fits: 128", "[1.17, 1.75]", "out of memory"):
        assert text in PAGES["batch"], text


def test_the_page_of_a_profile_says_what_the_terminal_says() -> None:
    page = unescape(PAGES["profile"])
    for text in (
        "waiting for data: 60 % of a step (at most 2.50x)",
        "AT_MOST",
        "Worth racing (effect unknown until raced",
        "fused_optimizer: AdamW runs an operation for each parameter (cannot give more than 1.07x)",
        "threads spin (cost not measured)",
        "sleeping_threads: let OpenMP threads sleep",
        "1,234 samples/s, 98,765 tokens/s",
        "peak 2.0 KiB",
        "2 GFLOP a step, 50 GFLOP/s in forward and backward: 50%",
        "Next: race them, keep what is proved faster with equal losses",
        "hotlap tune python",
    ):
        assert text.replace("AT_MOST", AT_MOST) in page, text
    assert page.count("threads spin") == 1, "an advice does not repeat its heading"
    unbound = profile()
    unbound["findings"] = [{**one, "most": 1.0} for one in unbound["findings"]]
    assert AT_MOST not in unescape(html.page(unbound))


def test_phases_of_one_colour_differ_by_stripes() -> None:
    phase = {"mean": 0.001, "share": 0.5, "p10": 0.001, "p90": 0.001, "usual": None, "cpu": 0.0}
    phases = [phase | {"name": name} for name in ("evaluation", "evaluation_data")]
    page = html.page(profile() | {"phases": phases})
    assert page.count('class="striped"') == 2, "in the bar and in the legend"
    assert 'class="striped"' not in PAGES["profile"]


def test_the_page_of_a_profile_without_a_problem_names_the_line_that_takes_most() -> None:
    line = {"place": "t.py:7", "function": "f", "text": "svd(x)", "share": 1.0, "samples": 99}
    lines = profile() | {"findings": [], "lines": {"forward": [line]}}
    said = "most time goes to t.py:7 (40% of a step)"
    assert said in unescape(html.page(lines))
    assert said not in unescape(html.page(profile() | {"lines": {"forward": [line]}}))


def test_the_page_of_a_profile_compares_the_ranks() -> None:
    page = html.page(profile())
    cells = "".join(
        f"<td>{cell}</td>"
        for cell in ("1", "50.0 ms", "data loading 50.0 ms", "20.0 ms", "10.0 ms", "0 us")
    )
    assert cells in page
    assert '<th scope="col">communication</th>' in page
    assert "communication" not in html.page(profile() | {"ranks": [], "world": 1})


def test_a_ratio_that_was_not_settled_is_no_headline() -> None:
    found = tune()
    assert "<h1>1.50x</h1>" in html.page(found)
    found["final"]["verdict"] = "inconclusive"
    assert "<h1>Inconclusive</h1>" in html.page(found)
    found["final_parity"] = {"kept": False, "reason": "losses differ"}
    assert "<h1>Not confirmed</h1>" in html.page(found)
    raced = {"verb": "race", "commands": [["a"], ["b"]], "a_step": 0.2, "b_step": 0.1, **race(2.0)}
    assert "<h1>2.00x</h1>" in html.page(raced)
    page = html.page({**raced, "verdict": "inconclusive"})
    assert "<h1>Inconclusive</h1>\n<p>inconclusive: the difference" in page


def test_rows_are_said_to_build_on_kept_ones_only_where_some_were_kept() -> None:
    found = tune()
    assert "Each row is measured on top of" in html.page(found)
    found["outcomes"] = [row("channels_last", "same", 1.0)]
    assert "measured on top of" not in html.page(found)


def test_the_page_leaves_out_the_rows_that_the_terminal_leaves_out() -> None:
    found = tune()
    open_row = {**row("loader_workers", "inconclusive", 1.0), "race": None, "reason": "no time"}
    found["outcomes"] = [row("async_copy", "kept", 1.4), open_row]
    page = html.page(found)
    assert "Left out" not in page
    assert "no time" in page


def test_a_row_on_the_page_says_what_the_terminal_says() -> None:
    found = tune()
    found["outcomes"] = [row("async_copy", "kept", 1.4), row("grads_to_none", "kept", 1.7)]
    for one, decided in zip(found["outcomes"], ("inconclusive", "faster"), strict=True):
        one["race"] |= {"verdict": decided, "fresh": estimate(1.2, 0.3)}
    page = html.page(found)
    assert ">not confirmed<" in page
    assert ">1.20x<" in page
    assert ">1.70x<" in page  # the fresh pairs alone do not show that anything was won


def test_the_page_of_a_plan_has_the_fastest_layout_and_the_dry_run() -> None:
    best = plan()["fitting"][0]
    for text in (f"{best['tokens_per_second']:,.0f} tokens/s", "64 x H100", "1x32", "4.7 GiB"):
        assert text in PAGES["plan"], text
    assert "Nothing fits" in html.page(plan() | {"fitting": []})


def test_the_page_of_a_range_test_has_the_suggestion_and_the_curve() -> None:
    assert f"Learning rate {lr()['suggestion']:.2g}" in PAGES["lr"]
    assert "dashes: the suggestion" in PAGES["lr"]
    none = html.page(lr() | {"suggestion": None, "losses": [], "rates": []})
    assert "No suggestion" in none
    assert "Loss over" not in none


def test_a_curve_spans_its_picture_and_what_diverges_stays_inside() -> None:
    found = sweep_picture([1e-3, 1e-2, 1e-1, 1.0], [2.0, 1.0, 50.0, None], 2.0, 1e-2)
    assert found is not None
    assert found["points"] == "0.0,100.0 300.0,195.0 600.0,5.0"
    assert found["mark"] == 300.0
    assert found["top"] == 3.0


@pytest.mark.skipif(not BROWSER, reason="no Chromium")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_and_has_no_serious_accessibility_fault(
    name: str, dark: bool, tmp_path: Path
) -> None:
    if name == "card" and dark:
        pytest.skip("cards keep their own light ground")
    page = PAGES[name]
    if dark:  # headless Chromium follows no theme of a desktop
        page = page.replace("@media (prefers-color-scheme: dark)", "@media all")
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "page.html").write_text(page, "utf-8")
    seen = measure(folder, ["page.html"], WIDTHS)
    assert [one["width"] for one in seen] == list(WIDTHS)
    assert [one for one in seen if one["needs"] > one["width"]] == []
    assert [one for one in seen if one["faults"]] == []
