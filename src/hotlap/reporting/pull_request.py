"""The Markdown of a comment for a race: `python -m hotlap.reporting.pull_request FILE`, its JSON.

The GitHub Action of this repository writes it into the pull request that was raced. The first line
marks the comment, so that the next run replaces it.
"""

import json
import shlex
import sys
from pathlib import Path

from hotlap.core.protocol import Document
from hotlap.reporting.words import duration

MARK = "<!-- hotlap race -->"
HEADLINES = {
    "faster": "A training step is **faster** with this change",
    "slower": "A training step is **slower** with this change",
    "same": "A training step takes the same time with this change",
    "inconclusive": "Whether this change alters the speed of a training step is **inconclusive**",
}


def comment(race: Document) -> str:
    """The comment for a race of the base (A) against the change (B), as `race --json` prints it."""
    estimate = race["estimate"]
    low, high = estimate["low"] or 0.0, estimate["high"]
    known = high is not None and low > 0
    interval = f"[{low:.2f}, {high:.2f}]" if known else "not known yet"
    ratio = "" if estimate["ratio"] is None else f"{estimate['ratio']:.2f}x"
    base, change = (_side(words) for words in race["commands"])
    lines = [
        MARK,
        f"### {HEADLINES[race['verdict']]}",
        "",
        "| | a step | command |",
        "|---|---:|---|",
        f"| base {base[0]} | {duration(race['a_step'])} | `{base[1]}` |",
        f"| change | {duration(race['b_step'])} | `{change[1]}` |",
        "",
        f"Speed of the change over the base: **{ratio or '-'}**, {estimate['level']:.0%} interval "
        f"{interval}, from {estimate['pairs']} pairs of blocks run in turns on the same machine.",
    ]
    if race["too_slow"]:
        lines += ["", "It is slower than this job allows."]
    if race["verdict"] == "inconclusive":
        lines += ["", "A larger `budget` gives the race more pairs."]
    return "\n".join(lines) + "\n"


def _side(words: list[str]) -> tuple[str, str]:
    """The revision that a side was raced at, if it is named, and its command."""
    label = words[0].removesuffix(":") if words[0].endswith(":") else ""
    command = words[1:] if label else words
    shown = ["python" if Path(w).name.startswith("python") else w for w in command]
    return (f"`{label}`" if label else "", shlex.join(shown))


if __name__ == "__main__":
    sys.stdout.write(comment(json.loads(Path(sys.argv[1]).read_text("utf-8"))))
