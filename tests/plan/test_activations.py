"""What a layer keeps for its backward pass, by formula and by dry run."""

import pytest

from hotlap.plan.child import ask
from hotlap.plan.shape import Shape

ROWS = 4
GPT = {"hidden": 256, "heads": 8, "kv_heads": 8, "ffn": 1024, "gated": False, "bias": True}
LLAMA = {"hidden": 256, "heads": 8, "kv_heads": 4, "ffn": 704, "gated": True, "bias": False}
KINDS = {"gpt": GPT, "llama": LLAMA}


def job(kind, ranks, layers):
    rest = {"vocabulary": 8192, "sequence": 128, "positions": False, "tied": False}
    split = {"tp": ranks, "sequence_parallel": True, "loss_parallel": True}
    return {
        "sizes": kind | rest | {"layers": layers},
        "parallelism": split if ranks > 1 else {},
        "stage": 0,
        "micro_batch": ROWS,
        "micro_batches": 2,
    }


@pytest.mark.parametrize(
    "cases",
    [
        (("gpt", 1), ("llama", 4)),
        pytest.param((("gpt", 4), ("llama", 1)), marks=pytest.mark.slow),
    ],
)
def test_a_layer_keeps_what_the_formula_says(cases):
    answers = iter(ask([job(KINDS[name], ranks, n) for name, ranks in cases for n in (2, 3)]))
    for name, ranks in cases:
        kind = KINDS[name]
        two, three = (next(answers)["owners"]["activations"] for _ in range(2))
        shape = Shape(2, vocabulary=8192, sequence=128, positions=False, tied=False, **kind)
        # beside it: a mean and a scale of each token and norm
        assert shape.block_bytes(ROWS, ranks, 4) == pytest.approx(three - two, rel=0.01), (
            name,
            ranks,
        )
