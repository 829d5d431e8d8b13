"""The techniques that put the operators into unmodified scripts."""

import pytest
import torch
from applying import on, torch_is_left_as_it_was  # noqa: F401

from hotlap.kernels import pinned

F = torch.nn.functional
CALLS = {
    "fused_gelu": ("gelu", lambda x: F.gelu(x)),  # noqa: PLW0108  # looked up when called
    "fused_softmax": ("softmax", lambda x: F.softmax(x, -1)),
}


@pytest.mark.parametrize("technique", CALLS)
def test_a_faster_implementation_takes_the_call_and_torchs_own_does_not(technique):
    operator, call = CALLS[technique]
    x = torch.randn(64, 512, requires_grad=True)
    plain = call(x)
    with on(technique) as seams, pinned(operator, "torch"):
        assert torch.equal(call(x), plain)
        assert not seams.holds.get(technique)
    with on(technique) as seams, pinned(operator, "native"):
        call(torch.randn(3, 4))
        assert not seams.holds.get(technique)
        found = call(x)
        assert seams.holds[technique]
        torch.testing.assert_close(found, plain)
        assert type(found.grad_fn) is not type(plain.grad_fn)
