"""The examples of the pages run as they stand."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent.parent / "docs"


@pytest.mark.parametrize("page", ["optim.md", "how-to/learning-rate.md"])
def test_examples_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if page.startswith("how-to"):
        pytest.importorskip("matplotlib")
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert len(blocks) > 2
    space: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), space)
