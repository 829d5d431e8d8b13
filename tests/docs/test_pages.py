"""The generated pages: one a technique, every verb, every pattern; races where on record."""

import importlib.util
import json
import re
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name

import pytest

from hotlap.cli.main import VERBS
from hotlap.core.registry import techniques

ROOT = Path(__file__).parents[2]
ALL = list(techniques().values())


@pytest.fixture(scope="module")
def generate():
    pytest.importorskip("mkdocs")
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(generate):
    return generate.pages()


@pytest.mark.parametrize("record", ALL, ids=[record.id for record in ALL])
def test_each_technique_has_a_page_that_says_what_its_record_says(record, pages):
    page = pages[f"techniques/{record.id}.md"]
    for text in (record.title, record.why, record.changes, record.avoid):
        assert text in page
    assert all(claim.text in page for claim in record.claims)
    assert all(example.before.strip("\n") in page for example in record.examples)
    assert f"({record.id}.md)" in pages["techniques/index.md"]
    assert "## Measured here" in page


def test_every_verb_is_in_the_reference(pages):
    for verb in VERBS:
        assert f"## hotlap {verb}\n" in pages["reference.md"]
        assert f"Usage: hotlap {verb}" in pages["reference.md"]


@pytest.mark.parametrize(("part", "names"), [("data", {"Loader"}), ("kernels", {"gelu", "pin"})])
def test_api_page_names_each_public_object_where_it_is_defined(pages, part, names):
    named = re.findall(r"^::: (hotlap[\w.]+)$", pages[f"api/{part}.md"], re.MULTILINE)
    assert names <= {name.rpartition(".")[2] for name in named}
    assert len(named) == len(import_module(f"hotlap.{part}").__all__)
    assert all(isinstance(resolve_name(name), object) for name in named)


def test_every_pattern_is_listed_once(pages):
    listed = re.findall(r"^\| \[`(\w+)`\]\(patterns/\1.md\)", pages["patterns.md"], re.MULTILINE)
    assert listed == [pattern.id for record in ALL for pattern in record.patterns]
    assert len(listed) == len(set(listed))


def test_every_pattern_has_a_page_that_says_what_to_do(pages):
    for record in ALL:
        for pattern in record.patterns:
            page = pages[f"patterns/{pattern.id}.md"].lower()
            for text in (pattern.says, pattern.remedy, pattern.ignore, record.why):
                assert text.lower() in page


def test_races_on_record_are_shown_with_machine_and_date(generate, tmp_path, monkeypatch):
    folder = tmp_path / "2026-01-02-abc"
    folder.mkdir()
    (folder / "techniques-toy.json").write_text(
        '{"machine": "a machine", "summary": {"workload": "toy"}, "rows": [{"technique": '
        '"cached_dataset", "values": {"n": 2}, "ratio": 3.0, "low": 2.5, "high": 3.5, "pairs": 9, '
        '"outcome": "kept"}]}'
    )
    monkeypatch.setattr(generate, "RESULTS", tmp_path)
    page = generate.pages()["techniques/cached_dataset.md"]
    assert "| toy (n=2) | 3.00x | [2.50, 3.50] | 9 | kept | 2026-01-02, a machine |" in page


def test_a_race_of_a_tune_on_a_gpu_is_shown_and_a_tune_that_failed_is_not(
    generate, tmp_path, monkeypatch
):
    race = {"technique": "tf32", "values": {}, "ratio": 1.234, "low": 1.1, "high": 1.4,
            "pairs": 7, "outcome": "kept"}  # fmt: skip
    tunes = [{"name": "gpt", "raw": {"races": [race]}}, {"name": "cnn", "raw": None}]
    parts = [{"part": "peaks", "rows": [{"name": "limits", "raw": None}]},
             {"part": "tune", "rows": tunes}]  # fmt: skip
    folder = tmp_path / "2026-01-02-abc"
    folder.mkdir()
    (folder / "gpu.json").write_text(json.dumps({"machine": "one GPU", "rows": parts}))
    monkeypatch.setattr(generate, "RESULTS", tmp_path)
    page = generate.pages()["techniques/tf32.md"]
    assert "| gpt | 1.23x | [1.10, 1.40] | 7 | kept | 2026-01-02, one GPU |" in page


def test_the_gallery_shows_each_record(generate, pages):
    paths = sorted(generate.RESULTS.glob("*/gallery-*.json"))
    newest = {path.stem: json.loads(path.read_text()) for path in paths}
    assert newest
    for record in newest.values():
        row, found = record["rows"][0], record["summary"]
        line = next(x for x in pages["gallery.md"].splitlines() if f"| {row['about']} |" in x)
        assert row["repository"] in line
        assert row["command"] in pages["gallery.md"]
        assert row["commit"][:10] in pages["gallery.md"]
        if found.get("ratio"):
            assert f"{found['ratio']:.2f}x [{found['low']:.2f}, {found['high']:.2f}]" in line
        assert all(name in line for name in found.get("kept", []))


def test_the_gallery_of_a_gain_of_none_and_of_a_failure(generate):
    gain = {
        "kept": ["tf32"],
        "inconclusive": [],
        "ratio": 1.5,
        "low": 1.4,
        "high": 1.625,
        "confirmed": True,
        "parity": {"reason": "losses equal"},
        "other_cores": 0.12,
    }
    assert generate._gained(gain).startswith("[tf32](techniques/tf32.md) | 1.50x [1.40, 1.62] |")
    none = gain | {"kept": [], "ratio": None, "parity": None}
    assert generate._gained(none) == "nothing to gain | - | - | 0.1 cores"
    assert "1 inconclusive" in generate._gained(none | {"inconclusive": ["tf32"]})
    assert "not raced: boom" in generate._gained({"error": "boom\nmore"})


def test_the_table_of_verdicts_stands_on_its_page(generate):
    text = (ROOT / "docs" / "measuring.md").read_text("utf-8")
    shown = generate.on_page_markdown(text, None, None, None)
    assert "| load-dependent | It was faster while other programs used the cores" in shown
    assert "<!--" not in shown
