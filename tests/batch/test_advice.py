"""What goes with a batch size, and when memory is said to be over."""

import pytest

from hotlap.batch.batch_result import BatchFacts, BatchResult, SizeResult
from hotlap.batch.batch_search import _power_above, _power_below
from hotlap.batch.limits import Limits, gib


def found(own: int, fastest: int, optimizer: str = "SGD", micro: int = 1) -> BatchResult:
    script = BatchFacts(own, optimizer=optimizer, lr=0.1, micro_batches=micro)
    return BatchResult(script, {fastest: SizeResult(fastest, fits=True)}, fastest, fastest)


@pytest.mark.parametrize(
    ("own", "fastest", "optimizer", "micro", "words"),
    [
        (32, 128, "SGD", 1, ["grows from 32 to 128", "lr 0.1 -> 0.4 (linear"]),
        (32, 128, "AdamW", 1, ["grows from 32 to 128", "lr 0.1 -> 0.2 (square root"]),
        (64, 16, "SGD", 1, ["accumulate 4 micro-batches to keep the effective batch of 64",
                            "lr 0.1 -> 0.025 (linear"]),
        (32, 64, "SGD", 4, ["accumulate 2 micro-batches to keep the effective batch of 128",
                            "0.2 (linear"]),
        (32, 24, "SGD", 1, ["accumulate 1 micro-batches: an effective batch of 24 beside 32",
                            "0.075"]),
    ],
)  # fmt: skip
def test_advice(own: int, fastest: int, optimizer: str, micro: int, words: list[str]) -> None:
    lines = found(own, fastest, optimizer, micro).advice()
    assert len(lines) == len(words)
    for line, word in zip(lines, words, strict=True):
        assert word in line


@pytest.mark.parametrize(("own", "fastest"), [(32, 32), (0, 64), (32, 0)])
def test_no_advice_where_there_is_nothing_to_say(own: int, fastest: int) -> None:
    assert found(own, fastest).advice() == []


def test_powers() -> None:
    assert [_power_above(n) for n in (1, 8, 20, 64)] == [2, 16, 32, 128]
    assert [_power_below(n) for n in (2, 8, 20, 65)] == [1, 4, 16, 64]


def test_limits_leave_head_room() -> None:
    limits = Limits(memory=1000, space=5000, free=800, headroom=0.1)
    assert limits.exceeded(900, 4500, 80) == ""
    assert "allowed" in limits.exceeded(901, 0, 800)
    assert "ulimit" in limits.exceeded(0, 4501, 800)
    assert "machine's memory" in limits.exceeded(0, 0, 79)
    assert Limits().exceeded(1 << 50, 1 << 50, 0) == ""


def test_bytes_for_reading() -> None:
    assert gib(3 * 2**30 // 2) == "1.50 GiB"
    assert gib(5 * 2**20) == "5 MiB"
