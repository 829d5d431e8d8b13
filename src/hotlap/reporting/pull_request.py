"""The Markdown of a comment for a race: `python -m hotlap.reporting.pull_request FILE`, its JSON.

The GitHub Action of this repository writes it into the pull request that was raced. The first line
marks the comment, so that the next run replaces it. An annotation for a limit that was not decided
goes to stderr, where the job's log shows it.
"""

import json
import shlex
import sys
from pathlib import Path

from hotlap.core.amounts import duration
from hotlap.core.protocol import Document
from hotlap.reporting.words import TOO_FEW, by_sample

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
    interval = f"[{low:.2f}, {high:.2f}]" if known else TOO_FEW
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
    if words := by_sample(race.get("samples"), ("the base", "the change")):
        lines += ["", f"{words[0].upper()}{words[1:]}."]
    if race["too_slow"]:
        lines += ["", "It is slower than this job allows."]
    if words := undecided(race):
        lines += ["", f"**{words[0].upper()}{words[1:]}**"]
    elif race["verdict"] == "inconclusive":
        lines += ["", "A larger `budget` gives the race more pairs."]
    return "\n".join(lines) + "\n"


def undecided(race: Document) -> str:
    """Where the race could not tell whether the limit of the job holds: that, and what it took."""
    limit, estimate = race.get("max_slowdown"), race["estimate"]
    if limit is None or race["too_slow"] is not None:
        return ""
    found = "could not tell whether the change is slower than this job allows"
    if not (estimate["low"] and estimate["high"]):
        return f"{found}; raise its budget."
    return (
        f"{found}: it took {1 / estimate['ratio']:.2f}x [{1 / estimate['high']:.2f}, "
        f"{1 / estimate['low']:.2f}] as long as the base, {limit:g}x is allowed; raise its budget."
    )


def annotation(race: Document) -> str:
    """GitHub's workflow command for a limit that was not decided; empty where there is none.

    A warning where the ratio itself breaks the limit, though its interval does not exclude it.
    """
    words = undecided(race)
    if not words:
        return ""
    breaks = (race["estimate"]["ratio"] or 1.0) * race["max_slowdown"] < 1.0
    return f"::{'warning' if breaks else 'notice'} title=hotlap race::{words}\n"


def _side(words: list[str]) -> tuple[str, str]:
    """The revision that a side was raced at, if it is named, and its command."""
    label = words[0].removesuffix(":") if words[0].endswith(":") else ""
    command = words[1:] if label else words
    shown = ["python" if Path(w).name.startswith("python") else w for w in command]
    return (f"`{label}`" if label else "", shlex.join(shown))


if __name__ == "__main__":
    found = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    sys.stdout.write(comment(found))
    sys.stderr.write(annotation(found))
