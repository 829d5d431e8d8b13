import pytest
import torch._dynamo


@pytest.fixture
def nothing_compiled():
    """No step is followed where something was compiled, also by another test."""
    torch._dynamo.utils.counters.clear()
