"""The labelled set: snippets in a folder for each pattern, and whole scripts.

A line that ends in `# found: <id>[, <id>]` is where these patterns are to be found. What has no
such line (`good_*.py`, `*_clean.py`) is to be left alone.
"""

import re
from pathlib import Path

from hotlap.source.config import Config
from hotlap.source.lint import lint_file

HERE = Path(__file__).parent
BAD = sorted((HERE / "snippets").glob("*/bad_*.py"))
GOOD = sorted((HERE / "snippets").glob("*/good_*.py"))
SCRIPTS = sorted((HERE / "scripts").glob("*.py"))
_MARK = re.compile(r"#\s*found:\s*([\w, ]+)$")


def marked(path):
    """The (line, id) pairs that a file's comments ask for."""
    found = set()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if match := _MARK.search(line):
            found |= {(number, name.strip()) for name in match[1].split(",")}
    return found


def found(path, *, hints, only=()):
    """The (line, id) pairs that lint finds, its own marks taken out of the text."""
    lines = path.read_text().splitlines(keepends=True)
    plain = "".join(_MARK.sub("", line.rstrip("\n")) + "\n" for line in lines)
    spots = lint_file(path, plain.encode(), Config(HERE, hints=hints, select=only))
    return {(spot.line, spot.id) for spot in spots}


def name(path):
    """How a test calls a file."""
    return f"{path.parent.name}/{path.stem}"
