"""Run with TRITON_INTERPRET=1: each Triton kernel against float64, values and gradients."""

import torch
from test_operators import NAMES, cases, exact, made
from ulp import ulp_error

from hotlap.kernels import add_rms_norm, dispatch, pinned
from hotlap.kernels.softmax import slope

SHAPES = [(3, 5), (2, 3, 129)]


def check(name, shape, dtype):
    _, operator, reference, shapes = cases(shape)[NAMES.index(name)]
    arguments = made(shapes, dtype)
    key = name.split()[0]
    key = "norm" if key in {"layer", "RMS"} else key
    with pinned("*", "triton"):
        assert dispatch._known[key].choice(*_given(key, arguments)) == "triton", name
        out = operator(*arguments)
        grad = torch.randn(out.shape).to(dtype)
        found = torch.autograd.grad(out, arguments, grad)
    value, gradients = exact(reference, arguments, grad)
    if name == "softmax":
        gradients = (slope(grad.double(), out.detach().double()),)
    floor = 0.0 if key in {"gelu", "softmax", "swiglu"} else 2.0**-6
    worst = [ulp_error(out, value, floor)]
    for one, right in zip(found, gradients, strict=True):
        worst.append(ulp_error(one, right, right.abs().max().item() * 2.0**-4))
    assert max(worst) <= 2, (name, shape, dtype, worst)


def _given(key, arguments):
    first = arguments[0]
    tables = torch.rand(2, 2)
    return {
        "gelu": (first, "none"),
        "norm": (first, None, None, None, 1e-5, True),
        "rotary": (first, tables, tables, False),
    }.get(key, tuple(arguments))


def with_residual():
    arguments = made([(3, 5), (3, 5), (5,)], torch.float32, 1.0)
    doubles = [a.detach().double().requires_grad_() for a in arguments]
    with pinned("*", "triton"):
        y, h = add_rms_norm(*arguments)
        got = torch.autograd.grad((y * y + 3 * h).sum(), arguments)
    with pinned("*", "torch"):
        y, h = add_rms_norm(*doubles)
        want = torch.autograd.grad((y * y + 3 * h).sum(), doubles)
    for one, right in zip(got, want, strict=True):
        torch.testing.assert_close(one.double(), right, rtol=1e-5, atol=1e-5)


for name in NAMES:
    for shape in SHAPES:
        for dtype in (torch.float32, torch.float16):
            check(name, shape, dtype)
with_residual()
print("all within two units in the last place")
