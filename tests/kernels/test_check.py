"""The check of an operator: it refuses twelve kinds of wrong ones and passes right ones."""

import ctypes
from types import SimpleNamespace

import pytest
import torch

from hotlap.kernels import gelu, layer_norm, softmax
from hotlap.kernels.check.checks import examine
from hotlap.kernels.check.subject import SubjectError, from_module, load
from hotlap.kernels.gelu import _gelu

F = torch.nn.functional
EPS = 1e-5


def scaled(x):
    return 2 * x + 1


def norm(x):
    return F.layer_norm(x, x.shape[-1:], eps=EPS)


def total(x):
    return x.sum(-1)


def failed(kernel, reference, **options):
    subject = from_module(SimpleNamespace(kernel=kernel, reference=reference, **options))
    outcomes = [check() for _, check in examine(subject)]
    return {outcome.check: outcome.detail for outcome in outcomes if not outcome.passed}


# Twelve frauds: a factory each, since some keep state.


def skips_the_tail():
    def kernel(x):
        flat = x.reshape(-1)
        out = x.new_zeros(flat.shape)
        whole = flat.numel() // 4 * 4
        out[:whole] = 2 * flat[:whole] + 1
        return out.view(x.shape)

    return kernel, scaled, "values"


def reads_stale_memory():
    def kernel(x):
        out = torch.empty_like(x)
        return out.mul_(0).add_(2 * x + 1)  # 0 * NaN is NaN

    return kernel, scaled, "uninitialised memory"


def caches_by_pointer():
    known = {}

    def kernel(x):
        key = x.data_ptr(), x.shape, x.stride(), x.dtype
        if key not in known:
            known[key] = (x, 2 * x + 1)  # kept alive, so that no other tensor gets the address
        return known[key][1].clone()

    return kernel, scaled, "state between calls"


def ignores_strides():
    def kernel(x):
        return 2 * torch.as_strided(x, x.shape, (x.shape[1], 1), x.storage_offset()) + 1

    return kernel, scaled, "layouts"


def wrong_gradient():
    class Kernel(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x + 1

        @staticmethod
        def backward(ctx, grad):
            return 2.01 * grad

    return Kernel, scaled, "gradients"


def accumulates_in_16_bits():
    def kernel(x):
        if x.dtype == torch.float32:
            return x.sum(-1)
        running = x.new_zeros(x.shape[0])
        for column in x.unbind(-1):
            running = running + column
        return running

    return kernel, total, "16-bit accumulation"


def depends_on_order():
    def kernel(x):
        running = x.new_zeros(x.shape[0])
        for index in torch.randperm(min(x.shape[1], 16)).tolist():
            running = running + x[:, index::16].sum(-1)
        return running

    return kernel, total, "deterministic"


def writes_out_of_bounds():
    def kernel(x):
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        out.copy_(x).mul_(2).add_(1)
        if out.numel():
            ctypes.memset(out.data_ptr() + out.nbytes, 0, 4)
        return out

    return kernel, scaled, "memory bounds"


def ignores_eps():
    def kernel(x):
        centred = x - x.mean(-1, keepdim=True)
        return centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-12)

    return kernel, norm, "edge values"


def loses_nan():
    return lambda x: (2 * x + 1).nan_to_num(), scaled, "edge values"


def works_for_one_shape():
    def kernel(x):
        return 2 * x + 1 if x.shape[-1] <= 1024 else torch.zeros_like(x)

    return kernel, scaled, "values"


def returns_the_input():
    return lambda x: x, lambda x: x * 1.0, "inputs unchanged"


FRAUDS = [
    skips_the_tail, reads_stale_memory, caches_by_pointer, ignores_strides, wrong_gradient,
    accumulates_in_16_bits, depends_on_order, writes_out_of_bounds, ignores_eps, loses_nan,
    works_for_one_shape, returns_the_input,
]  # fmt: skip


@pytest.mark.parametrize("fraud", FRAUDS, ids=lambda f: f.__name__)
def test_a_wrong_operator_is_refused_by_the_check_that_is_meant_for_it(fraud):
    kernel, reference, check = fraud()
    differentiable = fraud is wrong_gradient
    found = failed(kernel, reference, DIFFERENTIABLE=differentiable)
    assert check in found, found


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x.float()) if x.dtype.itemsize == 2 else torch.sigmoid(x)
        return (grad * s * (1 + x * (1 - s))).to(x.dtype)


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        wide = x.float() if x.dtype.itemsize == 2 else x
        powers = (wide - wide.amax(-1, keepdim=True)).exp()
        y = powers * (1 / powers.sum(-1, keepdim=True))
        ctx.save_for_backward(y)
        return y.to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        wide = grad.to(y.dtype)
        powers = wide * y
        return (powers - y * powers.sum(-1, keepdim=True)).to(grad.dtype)


def norm_in_float32(x):
    wide = x.float()
    centred = wide - wide.mean(-1, keepdim=True)
    return (centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + EPS)).to(x.dtype)


def weighted(rows, columns, dtype, generator):
    return [
        torch.randn(rows, columns, dtype=dtype, generator=generator),
        torch.randn(columns, dtype=dtype, generator=generator),
        torch.randn(columns, dtype=dtype, generator=generator),
    ]


RIGHT = {
    "torch's own": (lambda x: F.softmax(x, -1), lambda x: x.exp() / x.exp().sum(-1, True)),
    "a function of plain operations": (scaled, scaled),
    "autograd.Function": (Swish, F.silu),
    "a pair": ((lambda x: 2 * x + 1, lambda grad, x: 2 * grad), scaled),
    "registered": (gelu, F.gelu),
    "several arguments": (layer_norm, lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b, EPS)),
    "rows": (softmax, lambda x: torch.softmax(x, -1)),
    "a gradient whose terms cancel": (Softmax, lambda x: torch.softmax(x, -1)),
    "a reference that rounds less": (Softmax, lambda x: torch.softmax(x.double(), -1).to(x)),
    "float64 computed in float32": (norm_in_float32, norm),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_operator_passes(name):
    kernel, reference = RIGHT[name]
    options = {"inputs": weighted} if name == "several arguments" else {}
    if name == "torch's own":
        reference = RIGHT["rows"][1]
    assert failed(kernel, reference, **options) == {}


def test_an_operator_of_torch_library_is_given_to_opcheck():
    subject = from_module(SimpleNamespace(kernel=_gelu, reference=F.gelu))
    assert subject.operator is torch.ops.hotlap.gelu.default


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def kernel(x): return x\n", "no 'reference'"),
        ("def reference(x): return x\n", "no 'kernel'"),
        ("def reference(x): return x\nkernel = 3\n", "must be a function"),
    ],
)
def test_a_file_that_lacks_something_says_what(tmp_path, text, says):
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(SubjectError, match=says):
        load(str(tmp_path / "mine.py"))
    with pytest.raises(SubjectError, match="no file"):
        load("nothing.py")


def saved_scale(decorate):
    """An RMS norm that keeps its scale for the backward pass, as most kernels do."""

    class Norm(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            scale = torch.rsqrt(x.double().square().mean(-1, keepdim=True) + EPS)
            ctx.save_for_backward(x, scale)
            return (x * scale).to(x.dtype)

        @staticmethod
        @decorate
        def backward(ctx, grad):
            x, scale = ctx.saved_tensors
            along = (grad * x).mean(-1, keepdim=True)
            return (scale * grad - x * scale.pow(3) * along).to(x.dtype)

    return Norm


def rms(x):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS)


def test_a_second_derivative_that_is_wrong_names_the_remedy():
    found = failed(saved_scale(lambda backward: backward), rms)
    assert set(found) == {"gradcheck"}
    assert "put torch.autograd.function.once_differentiable on backward" in found["gradcheck"]


def test_an_operator_that_refuses_a_second_derivative_is_right():
    assert not failed(saved_scale(torch.autograd.function.once_differentiable), rms)
