"""The examples in the guides of the engine and of memory run as they stand."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent.parent / "docs"
EXAMPLES = [
    (name, index, text)
    for name in ("engine", "memory")
    for index, text in enumerate(
        re.findall(r"```python\n(.*?)```", (DOCS / f"{name}.md").read_text(), re.DOTALL)
    )
]


@pytest.mark.parametrize(("name", "index", "text"), EXAMPLES)
def test_example(name: str, index: int, text: str) -> None:
    exec(compile(text, f"docs/{name}.md[{index}]", "exec"), {"__name__": "example"})


def test_there_are_examples() -> None:
    assert [name for name, _, _ in EXAMPLES].count("engine") == 3
