from collections import Counter

import pytest

from hotlap.source.lint import patterns
from source.labelled import BAD, GOOD, SCRIPTS, found, marked, name

PATTERNS = {pattern.id: pattern for _, pattern in patterns()}
FAULTY = [path for path in SCRIPTS if not path.stem.endswith("_clean")]
CLEAN = [path for path in SCRIPTS if path.stem.endswith("_clean")]


@pytest.mark.parametrize("path", BAD, ids=name)
def test_a_pattern_is_found_where_it_is_marked_and_nowhere_else(path):
    pattern = path.parent.name
    wanted = {mark for mark in marked(path) if mark[1] == pattern}
    assert wanted
    assert found(path, hints=True, only=(pattern,)) == wanted


@pytest.mark.parametrize("path", GOOD, ids=name)
def test_what_looks_like_it_is_left_alone(path):
    assert not marked(path)
    assert not found(path, hints=True, only=(path.parent.name,))


@pytest.mark.parametrize("path", GOOD, ids=name)
def test_no_other_rule_finds_fault_with_it(path):
    assert not found(path, hints=False)


@pytest.mark.parametrize("path", FAULTY, ids=name)
def test_the_faults_of_a_whole_script_are_found(path):
    assert marked(path) <= found(path, hints=True)
    assert found(path, hints=False) <= marked(path)


@pytest.mark.parametrize("path", CLEAN, ids=name)
def test_a_clean_script_is_left_alone(path):
    assert not marked(path)
    assert not found(path, hints=False)


def test_every_script_is_whole_and_has_a_clean_twin():
    assert {path.stem + "_clean" for path in FAULTY} == {path.stem for path in CLEAN}
    assert all(len(path.read_text().splitlines()) >= 80 for path in SCRIPTS)


def test_every_folder_is_of_a_pattern_with_variants():
    bad = Counter(path.parent.name for path in BAD)
    good = Counter(path.parent.name for path in GOOD)
    assert set(bad) == set(good) <= set(PATTERNS)
    assert min(bad.values()) >= 2


def test_every_pattern_has_snippets():
    assert not set(PATTERNS) - {path.parent.name for path in BAD}


def test_every_pattern_says_what_why_instead_and_when_to_leave_it():
    for pattern in PATTERNS.values():
        assert pattern.says and pattern.remedy and pattern.ignore, pattern.id
