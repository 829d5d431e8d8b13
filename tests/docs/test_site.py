"""The built site in a browser: nothing is cut off, no serious accessibility fault."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from browser import BROWSER, measure

ROOT = Path(__file__).parents[2]
WIDTHS = (390, 768, 1280)
PAGES = (
    "index.html",
    "ja/index.html",
    "tutorial/index.html",
    "commands/index.html",
    "reference/index.html",
    "techniques/index.html",
    "techniques/loader_workers/index.html",
    "patterns/eval_with_grad/index.html",
    "gallery/index.html",
    "data/index.html",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site") / "built"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    subprocess.run(
        command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, timeout=120, check=True
    )
    return folder


@pytest.mark.slow
@pytest.mark.skipif(not BROWSER, reason="no Chromium")
@pytest.mark.parametrize("scheme", ["default", "slate"])
def test_the_site_fits_and_has_no_serious_accessibility_fault(scheme: str, site: Path) -> None:
    seen = measure(site, PAGES, WIDTHS, scheme=scheme, audit=1280)
    assert [one["page"] for one in seen] == [page for page in PAGES for _ in WIDTHS]
    assert [one for one in seen if "error" in one] == []
    assert [one for one in seen if one["needs"] > one["width"] or one["clipped"]] == []
    assert [(one["page"], one["faults"]) for one in seen if one["faults"]] == []


@pytest.mark.skipif(not BROWSER, reason="no Chromium")
def test_what_is_cut_off_or_has_a_fault_is_seen(tmp_path: Path) -> None:
    pages = {
        "fits": "<p>x</p><div style='overflow-x:auto' tabindex=0><pre>"
        + "x" * 999
        + "</pre></div>",
        "wide": "<pre>" + "x" * 999 + "</pre>",
        "cut": "<div style='overflow:hidden'><pre>" + "x" * 999 + "</pre></div>",
        "pale": "<p style='color:#ccc'>pale words</p>",
    }
    folder = tmp_path / "pages"
    folder.mkdir()
    for name, body in pages.items():
        text = f"<!doctype html><html lang=en><title>t</title><body><main><h1>t</h1>{body}</main>"
        (folder / f"{name}.html").write_text(text, "utf-8")
    fits, wide, cut, pale = measure(folder, [f"{name}.html" for name in pages], [390])
    assert fits["needs"] <= 390
    assert not fits["clipped"]
    assert not fits["faults"]
    assert wide["needs"] > 390
    assert cut["needs"] <= 390
    assert cut["clipped"]
    assert any("color-contrast" in fault for fault in pale["faults"])
