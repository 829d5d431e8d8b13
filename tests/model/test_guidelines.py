from math import sqrt
from random import Random

import pytest

from hotlap.model.guidelines import element_wise, fragments, many_groups, offences, unequal_channels


def row(taken, given, groups=1, kernel=1, positions=100, layer="layer", sharing=1, **more):
    shape = {"in": taken, "out": given, "groups": groups, "kernel": kernel, "positions": positions}
    moved = positions * (taken + given) + kernel * taken * given // groups
    return {"layer": layer, "kind": "Conv2d", "place": "", "elements": moved, "traffic": 4 * moved,
            "pointwise": 0, "shares_input": sharing, "shape": shape, **more}  # fmt: skip


def cost(taken, given, groups, positions, kernel):
    return positions * (taken + given) + kernel * taken * given / groups


def test_equal_widths_are_the_least_that_is_moved_for_so_many_operations():
    draw = Random(1)
    for _ in range(50):
        taken, given, positions = (draw.randint(1, 400) for _ in range(3))
        kernel = draw.choice([1, 9])
        even = sqrt(taken * given)
        excess = cost(taken, given, 1, positions, kernel) - cost(even, even, 1, positions, kernel)
        found = unequal_channels(row(taken, given, kernel=kernel, positions=positions))
        assert found == pytest.approx(excess, abs=1e-6)


def test_groups_move_more_for_the_same_operations_and_input():
    draw = Random(2)
    for _ in range(50):
        groups = draw.choice([1, 2, 4, 8])
        taken, given = groups * draw.randint(1, 40), groups * draw.randint(1, 40)
        positions, kernel = draw.randint(1, 500), draw.choice([1, 9])
        alone = given / groups  # as many operations in one group
        excess = cost(taken, given, groups, positions, kernel)
        excess -= cost(taken, alone, 1, positions, kernel)
        found = many_groups(row(taken, given, groups, kernel, positions))
        assert found == pytest.approx(excess, abs=1e-6)


def test_two_branches_are_no_fragmentation():
    assert fragments(row(8, 8, sharing=2)) == 0.0
    assert fragments(row(8, 8, sharing=4)) == pytest.approx(100 * 8 * 0.75)


def test_element_wise_operators_by_what_they_move():
    layer = row(8, 8, pointwise=0)
    layer["pointwise"] = layer["traffic"] // 2
    assert element_wise(layer) == pytest.approx(layer["elements"] / 2)
    assert element_wise({**layer, "traffic": 0, "elements": 0}) == 0.0


def test_the_worst_are_named_and_the_others_are_not():
    rows = [row(64, 64, layer="even"), row(4, 400, layer="wide"), row(64, 64, 64, layer="deep")]
    named = {(o.guideline[:2], o.layer) for o in offences(rows)}
    assert named == {("G1", "wide"), ("G2", "deep")}
    assert offences([row(64, 64)]) == []
    assert offences([]) == []
