"""How much of the labelled set is found, by family of rules."""

from collections import defaultdict

import pytest

from hotlap.core.registry import techniques
from source.labelled import BAD, SCRIPTS, found, marked

FAMILY = {p.id: str(record.group) for record in techniques().values() for p in record.patterns}


def recalls():
    """The share of the marks that are found, by the group of their technique."""
    wanted, hits = defaultdict(int), defaultdict(int)
    for path in (*BAD, *SCRIPTS):
        marks = marked(path)
        seen = found(path, hints=True) if marks else set()
        for mark in marks:
            wanted[FAMILY[mark[1]]] += 1
            hits[FAMILY[mark[1]]] += mark in seen
    return {family: hits[family] / count for family, count in wanted.items()}


def test_every_family_is_found_in_at_least_nine_of_ten_places():
    assert recalls()
    assert min(recalls().values()) >= 0.9


def test_the_set_is_as_large_as_it_should_be():
    assert len(BAD) >= 150
    assert len([path for path in SCRIPTS if not path.stem.endswith("_clean")]) >= 12


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_without_hints_no_hint_is_shown(path):
    hints = {p.id for record in techniques().values() for p in record.patterns if p.hint}
    assert not {id_ for _, id_ in found(path, hints=False)} & hints
