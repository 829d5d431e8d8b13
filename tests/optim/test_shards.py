"""Norms over shards are the true norms: two ranks give what one process gives."""

import pytest

from optim import ranks
from parallel import farm


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("ddp", marks=pytest.mark.slow),
        "fsdp",
        pytest.param("tp", marks=pytest.mark.slow),
    ],
)
def test_two_ranks_train_as_one_process(how: str) -> None:
    farm.run(2, ranks.compare_all, how)
