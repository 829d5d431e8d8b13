"""Every composition trains as one process does: losses, norms and parameters, in float64."""

from dataclasses import replace

import pytest
import torch

from hotlap.parallel.pipeline_schedules import refuse
from parallel import farm, parity, table
from parallel.parity import Case

BOUNDS = {
    torch.float64: {"loss": 1e-13, "norm": 1e-12, "parameters": 1e-11},
    torch.float32: {"loss": 1e-5, "norm": 1e-5, "parameters": 1e-2},
}


def names(one: Case) -> str:
    return f"{one.world} {one.name}"


def compare(one: Case) -> None:
    apart = parity.differences(parity.alone(one), farm.run(one.world, parity.rank, one))
    for what, bound in BOUNDS[one.dtype].items():
        assert apart[what] <= bound, (what, apart)


@pytest.mark.parametrize("one", table.CORE, ids=names)
def test_core(one: Case) -> None:
    compare(replace(one, steps=2))


@pytest.mark.slow
@pytest.mark.parametrize("one", table.ALL, ids=names)
def test_table(one: Case) -> None:
    try:
        refuse(one.parallelism, "gloo")
    except ValueError as error:
        pytest.skip(str(error))
    compare(one)


def test_a_difference_is_seen() -> None:
    one = replace(table.CORE[0], steps=2)
    other = replace(one, accumulate=1)
    apart = parity.differences(parity.alone(one), [parity.alone(other)])
    assert min(apart.values()) > 1e-6


def test_names_that_are_missing_are_seen() -> None:
    one = replace(table.CORE[0], steps=1)
    found = parity.alone(one)
    found.parameters.pop("norm.weight")
    with pytest.raises(AssertionError, match=r"norm\.weight"):
        parity.differences(parity.alone(one), [found])
