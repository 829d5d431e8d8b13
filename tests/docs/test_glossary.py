"""Messages, option help, README and documentation use the field's words, not private ones."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRIVATE = {
    "weather": "background load",
    "warden, warded": "supervisor",
    "seldom, now and then": "conditional, occasional",
    "undecided": "inconclusive",
    "mend, mends, mended": "fix",
    "beaten": "superseded",
    "lie down, lies down": "pause",
    "is told, are told, tells of, told of": "reports, prints",
    "would tell, did not tell": "would settle, inconclusive",
    "earned back": "pays off",
    "if data were free": "with zero data-loading time",
    "the script against itself": "A/A test",
    "stranger, strangers": "(say who is meant)",
}
WORDS = re.compile(
    r"\b(?:" + "|".join(w for row in PRIVATE for w in row.split(", ")) + r")\b", re.IGNORECASE
)


def prose() -> Iterator[tuple[str, str]]:
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            yield f"{path.relative_to(ROOT)}:{number}", line


def strings() -> Iterator[tuple[str, str]]:
    """String constants of the source that hold several words: messages, help, records."""
    for path in (ROOT / "src").rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value


@pytest.mark.parametrize("texts", [prose, strings])
def test_private_words_are_not_used(texts):
    found = [f"{place}: {match[0]}" for place, text in texts() if (match := WORDS.search(text))]
    assert found == []


def test_the_check_can_fail():
    assert WORDS.search("both see the same weather")
    assert not WORDS.search("both meet the same background load")
