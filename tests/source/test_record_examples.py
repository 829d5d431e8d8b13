"""Each record's own examples show its patterns before, and none of them after or left alone."""

from pathlib import Path

import pytest

from hotlap.core.registry import techniques
from hotlap.source.config import Config
from hotlap.source.lint import lint_file, patterns

WITH = [record for record in techniques().values() if record.patterns]
PAIRS = [(r, e) for r in WITH for e in r.examples if e.after is not None]
# Whether these pay is for a race to say: source shows only how they are misused.
RACED = {
    "channels_last",
    "cudnn_benchmark",
    "fused_cross_entropy",
    "fused_pointwise",
    "loader_reuse",
    "mixed_precision",
}
ALONE = [(r, e) for r in WITH for e in r.examples if e.after is None]
# What a fragment leaves out; an example that imports is taken as it stands.
HEAD = """
import json
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
"""


def found(record, code):
    own = {pattern.id for pattern in record.patterns}
    whole = code if "import " in code else HEAD + code
    spots = lint_file(Path("x.py"), whole.encode(), Config(Path(), hints=True))
    return {spot.id for spot in spots} & own


def name(value):
    return getattr(value, "id", "")


@pytest.mark.parametrize(("record", "example"), PAIRS, ids=name)
def test_a_pattern_is_found_before_and_gone_after(record, example):
    assert found(record, example.before) or record.id in RACED
    assert not found(record, example.after)


@pytest.mark.parametrize(("record", "example"), ALONE, ids=name)
def test_what_is_to_be_left_alone_is(record, example):
    assert not found(record, example.before)


def test_pattern_ids_are_unique_and_say_what_and_what_to_do():
    ids = [pattern.id for _, pattern in patterns()]
    assert len(ids) == len(set(ids))
    for _, pattern in patterns():
        assert pattern.id.isidentifier()
        assert pattern.says
        assert pattern.says == pattern.says.strip().rstrip(".")
        assert pattern.remedy
