"""Recall and precision over all whole scripts, by family of patterns, against the bars."""

from collections import defaultdict
from pathlib import Path

import pytest

from hotlap.source.lint import patterns
from source.labelled import SCRIPTS, found, marked

COMPACT = sorted((Path(__file__).parent / "compact").glob("*.py"))
WHOLE = [*COMPACT, *(path for path in SCRIPTS if not path.stem.endswith("_clean"))]
GROUP = {pattern.id: str(record.group) for record, pattern in patterns()}
HINTS = {pattern.id for _, pattern in patterns() if pattern.hint}


@pytest.fixture(scope="module")
def judged():
    """Of each script: its marks, and what is found in it."""
    return [(marked(path), found(path, hints=True)) for path in WHOLE]


def test_the_set_holds_thirty_whole_scripts():
    assert len(WHOLE) >= 30


def test_recall_over_all_and_in_each_family(judged):
    wanted, hits = defaultdict(int), defaultdict(int)
    for marks, seen in judged:
        for mark in marks:
            wanted[GROUP[mark[1]]] += 1
            hits[GROUP[mark[1]]] += mark in seen
    assert sum(hits.values()) / sum(wanted.values()) >= 0.85
    assert min(hits[family] / count for family, count in wanted.items()) >= 0.7


@pytest.mark.parametrize(("hints", "bar"), [(False, 0.97), (True, 0.85)])
def test_precision(hints, bar):
    right = told = 0
    for path in COMPACT:
        marks = marked(path)
        seen = {one for one in found(path, hints=True) if (one[1] in HINTS) is hints}
        told, right = told + len(seen), right + len(seen & marks)
    assert told
    assert right / told >= bar
