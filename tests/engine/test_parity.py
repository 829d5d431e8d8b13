"""An Engine against a loop written by hand, in every combination; all of them are exact."""

from itertools import product

import pytest
import torch

from engine.engine_loops import by_engine, by_hand
from hotlap.engine import EngineConfig

COMBINATIONS = list(product(("fp32", "bf16", "fp16"), (1, 4), (0.0, 0.3), (0, 1)))


ALL = pytest.mark.parametrize(("precision", "accumulate", "clip", "recompute"), COMBINATIONS)


@ALL
def test_engine_and_hand_agree_bitwise(
    precision: str, accumulate: int, clip: float, recompute: int
) -> None:
    compare(30 if accumulate == 1 else 12, precision, accumulate, clip, recompute)


@pytest.mark.slow
@ALL
def test_engine_and_hand_agree_bitwise_for_long(
    precision: str, accumulate: int, clip: float, recompute: int
) -> None:
    compare(200 if accumulate == 1 else 60, precision, accumulate, clip, recompute)


def compare(steps: int, precision: str, accumulate: int, clip: float, recompute: int) -> None:
    config = EngineConfig(
        precision=precision, accumulate=accumulate, clip=clip, recompute_every=recompute
    )
    theirs, their_model = by_hand(5, steps, config)
    ours, our_model = by_engine(5, steps, config)
    assert len(ours) == len(theirs) >= steps
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    for mine, other in zip(our_model.parameters(), their_model.parameters(), strict=True):
        assert torch.equal(mine, other)
    assert float(ours[-1]) != float(ours[0])


def test_the_last_group_is_smaller_and_still_a_mean() -> None:
    three = EngineConfig(accumulate=4)
    ours, _ = by_engine(1, 3, three)
    assert len(ours) == 9  # 70 samples by 8 are 9 batches: 4, 4 and 1
    theirs, _ = by_hand(1, 3, three)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
