"""The HTML pages in a browser: nothing wider than the screen, no serious accessibility fault."""

import math
import random
import re
from pathlib import Path
from typing import Any

import pytest

from browser import BROWSER, measure
from hotlap.report import html

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
    return {"estimate": estimate(ratio), "fresh": None, "memory": 1.1}


def row(name: str, status: str, ratio: float | None, reason: str = "") -> dict[str, Any]:
    return {"technique": name, "values": {}, "joined": [], "status": status, "reason": reason,
            "race": race(ratio) if ratio else None, "load": 0.7}  # fmt: skip


def tune() -> dict[str, Any]:
    draw = random.Random(1)
    curve = [2.3 * math.exp(-i / 200) + draw.random() / 5 for i in range(500)]
    return {
        "verb": "tune", "hotlap": "0.1.0", "command_line": LONG, "date": "2026-01-02 10:00",
        "machine": "a CPU, 2 cores", "isolation": {"tier": "overlay"}, "final": race(1.5),
        "final_steps": {"plain": 0.1, "tuned": 0.066}, "final_parity": {"reason": "losses match"},
        "headline": "1.50x [1.40, 1.60] faster with the whole recipe", "notes": ["a note"],
        "noise_floor": race(1.0), "losses": {"plain": curve, "tuned": [v + 0.02 for v in curve]},
        "outcomes": [row("loader_workers", "kept", 1.4, "because " * 20),
                     row("channels_last", "same", 1.0), row("tf32", "crashed", None, "x" * 90)],
        "phases": {"data": 0.05, "loader": 0.001, "forward": 0.02, "backward": 0.02, "other": 0.01},
        "memory_by_owner": {"parameters": 10_000_000, "activations": 400_000_000, "other": 0},
        "advice": [{"technique": "batch_size", "says": "say", "place": "train.py:3",
                    "lines": ["x" * 150]}],
        "next_steps": [f"hotlap run {LONG}"],
    }  # fmt: skip


def profile() -> dict[str, Any]:
    phases = [{"name": "data", "mean": 0.05}, {"name": "forward", "mean": 0.03}]
    finding = {"what": "waiting for data: 60 % of a step", "place": "train.py:3", "problem": True,
               "text": "y" * 200, "remedies": [{"id": "loader_workers", "says": "w " * 60}],
               }  # fmt: skip
    return {"verb": "profile", "hotlap": "0.1.0", "command": LONG, "phases": phases, "step": 0.08,
            "steps": 40, "device": "cpu", "partial": "", "notes": [], "findings": [finding],
            "memory_by_owner": {"parameters": 1000}}  # fmt: skip


def one_race() -> dict[str, Any]:
    return {"verb": "race", "hotlap": "0.1.0", "commands": [[LONG], ["b"]], "verdict": "faster",
            "a_step": 0.1, "b_step": 0.05, **race(2.0)}  # fmt: skip


def batch() -> dict[str, Any]:
    rows = [{"batch": 2**n, "seconds": 0.1 / n, "memory": 10**n} for n in range(1, 9)]
    return {"verb": "batch", "hotlap": "0.1.0", "arguments": ["batch", LONG], "largest": 256,
            "sizes": rows}  # fmt: skip


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
    "card": "<!doctype html><html lang=en><title>t</title><main><h1>n</h1>" + html.card(tune()),
    "index": html.history([{"file": "a.html", "when": "2026-01-02 10:00", "verb": "tune",
                            "command": LONG, "headline": "1.50x faster"}]),
}  # fmt: skip


@pytest.mark.parametrize("name", PAGES)
def test_a_page_stands_alone(name: str) -> None:
    assert not re.search(r"https?://|src=|@import|url\(", PAGES[name])


def test_a_page_says_what_was_found() -> None:
    for text in ("1.50x", "loader_workers", "[1.30, 1.50]", "data loading", "382 MiB", "a note",
                 "Not raced: 1", "overlay", "hotlap run", "a CPU", "500 steps"):  # fmt: skip
        assert text in PAGES["tune"].replace("381.5 MiB", "382 MiB"), text
    assert "loader_workers" in PAGES["profile"]
    assert "B is faster" in PAGES["race"]
    assert "256" in PAGES["batch"]


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
