"""The examples in the guides of the engine and of memory run as they stand, page by page."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent.parent / "docs"


@pytest.mark.parametrize(("name", "count"), [("engine", 3), ("memory", 3)])
def test_examples(name: str, count: int) -> None:
    page = (DOCS / f"{name}.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(examples) >= count
    names = {"__name__": "example"}
    for index, text in enumerate(examples):
        exec(compile(text, f"docs/{name}.md[{index}]", "exec"), names)
