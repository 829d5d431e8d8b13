"""Files that the contributor's documentation names exist, and hold what it says they do."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "hotlap"
PACKAGES = {path.name for path in SOURCE.iterdir() if path.is_dir()}
NAMED = re.compile(r"`(?:hotlap/)?((?:" + "|".join(sorted(PACKAGES)) + r")/[\w/.]*\w)/?`")


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_named_files_exist(name: str) -> None:
    named = set(NAMED.findall((ROOT / name).read_text("utf-8")))
    assert named
    assert not {path for path in named if not (SOURCE / path).exists()}


def test_the_table_of_places_names_what_is_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Where things are")[2]
    rows = [line for line in text.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    held = r"`(\w+)`(?: and `(\w+)`)? (?:in|of) `([\w/]+\.py)`"
    pairs = re.compile(held + r"|`([\w/]+\.py)` \(`(\w+)`\)")
    named = [groups for row in rows for groups in pairs.findall(row)]
    assert len(named) > 15
    for first, second, path, before, inside in named:
        where = path or before
        root = ROOT if where.startswith("tests/") else SOURCE
        content = (root / where).read_text("utf-8")
        for name in filter(None, (first, second, inside)):
            here = rf"^ *(?:class |(?:async )?def )?{name}\b"
            assert re.search(here, content, re.M), (name, where)
