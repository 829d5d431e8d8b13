"""The techniques that put the operators into unmodified scripts."""

import pytest
import torch
from applying import on, torch_is_left_as_it_was  # noqa: F401

from hotlap.kernels import pinned

F = torch.nn.functional
CALLS = {
    "fused_gelu": ("gelu", lambda x: F.gelu(x)),  # noqa: PLW0108  # looked up when called
    "fused_softmax": ("softmax", lambda x: F.softmax(x, -1)),
    "fused_norm": ("norm", lambda x: F.rms_norm(F.layer_norm(x, x.shape[-1:]), x.shape[-1:])),
}


@pytest.mark.parametrize("technique", CALLS)
def test_a_faster_implementation_takes_the_call_and_torchs_own_does_not(technique):
    operator, call = CALLS[technique]
    x = torch.randn(64, 512, requires_grad=True)
    plain = call(x)
    with on(technique) as seams, pinned(operator, "torch"):
        assert torch.equal(call(x), plain)
        assert not seams.holds.get(technique)
    with on(technique) as seams:
        call(torch.randn(3, 4))
        torch.func.vmap(call)(x)
        assert not seams.holds.get(technique), "too small, and a tensor of torch.func"
    with on(technique) as seams, pinned(operator, "native"):
        found = call(x)
        assert seams.holds[technique]
        torch.testing.assert_close(found, plain)
        assert type(found.grad_fn) is not type(plain.grad_fn)


def test_norms_that_the_operator_does_not_compute_stay_with_torch():
    x = torch.randn(4, 64, 64)
    with on("fused_norm") as seams, pinned("norm", "native"):
        F.layer_norm(x, (64, 64))
        F.layer_norm(x.bfloat16(), (64,), torch.ones(64, dtype=torch.bfloat16))
        assert len(seams.holds.pop("fused_norm")) == 1
        with torch.autocast("cpu", torch.bfloat16):
            F.layer_norm(x, (64,))
        assert not seams.holds


CLASSES = 1 << 10


def logits(dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(1100, CLASSES, generator=generator).to(dtype).requires_grad_()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_cross_entropy_is_torchs(reduction, dtype):
    x = logits(dtype)
    target = torch.randint(CLASSES, (1100,))
    target[::7] = -100
    plain = F.cross_entropy(x.double(), target, reduction=reduction)
    (want,) = torch.autograd.grad(plain.sum(), x)
    with on("fused_cross_entropy") as seams:
        found = F.cross_entropy(x, target, reduction=reduction)
        assert seams.holds["fused_cross_entropy"]
    (grad,) = torch.autograd.grad(found.sum(), x)
    assert found.dtype == grad.dtype == dtype
    torch.testing.assert_close(found.double(), plain, rtol=1e-2 if dtype.itemsize == 2 else 2e-6,
                               atol=1e-6)  # fmt: skip
    torch.testing.assert_close(grad, want.to(dtype))


def test_cross_entropy_leaves_other_losses_to_torch():
    x, target = logits(), torch.randint(CLASSES, (1100,))
    with on("fused_cross_entropy") as seams:
        F.cross_entropy(x, target, label_smoothing=0.1)
        F.cross_entropy(x, target, torch.ones(CLASSES))
        F.cross_entropy(x, torch.softmax(x, -1).detach())
        F.cross_entropy(x[:10], target[:10])
        F.cross_entropy(x.T[None], torch.zeros(1, 1100, dtype=torch.int64).clamp(max=3))
        torch.func.vmap(F.cross_entropy)(x[None], target[None])
        assert not seams.holds
        with pytest.raises(IndexError):
            F.cross_entropy(x, target + CLASSES)
        torch.nn.CrossEntropyLoss()(x, target)
        assert seams.holds


def test_cross_entropy_holds_no_copy_of_the_logits():
    from torch.autograd.graph import saved_tensors_hooks

    x, target = logits(), torch.randint(CLASSES, (1100,))
    saved = []

    def keep(tensor):
        if tensor.numel() == x.numel():
            saved.append(tensor.data_ptr())
        return tensor

    with on("fused_cross_entropy"), saved_tensors_hooks(keep, lambda t: t):
        F.cross_entropy(x, target)
    assert saved == [x.data_ptr()]
