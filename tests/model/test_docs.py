"""The examples of the page run as they stand."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "model.md").read_text(), re.DOTALL)
    assert len(blocks) > 3
    space: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "model.md", "exec"), space)
