"""Files that the contributor's documentation names exist."""

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
