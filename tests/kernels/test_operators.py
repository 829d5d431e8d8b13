"""Each operator: values and gradients against float64, and torch's checks."""

import importlib

import pytest
import torch
from torch.library import opcheck
from ulp import ulp_error

from hotlap.kernels import (
    add_layer_norm,
    add_rms_norm,
    gelu,
    layer_norm,
    linear_cross_entropy,
    native,
    norm,
    pinned,
    rms_norm,
    rotary,
    route,
    softmax,
    swiglu,
)
from hotlap.kernels.gelu import reference as gelu_reference
from hotlap.kernels.rotary import angles
from hotlap.kernels.rotary import reference as rotary_reference
from hotlap.kernels.softmax import reference as softmax_reference
from hotlap.kernels.softmax import slope as softmax_slope
from hotlap.kernels.swiglu import reference as swiglu_reference

cross_entropy = importlib.import_module("hotlap.kernels.cross_entropy")  # as the function is called
SHAPES = [(5, 7), (3, 1), (1, 1000), (0, 4), (2, 3, 129)]
DTYPES = [torch.float32, torch.bfloat16]


def normed(centred):
    return lambda x, w, b: norm.reference(x, w, b, 1e-5, centred)


def cases(shape):
    """Name, operator, reference, arguments: of the last dimension where a weight is."""
    columns = shape[-1:]
    rotated = (*shape[:-1], 2 * shape[-1])
    tables = angles(rotated[-2], rotated[-1])
    return [
        ("gelu", gelu, gelu_reference, [shape]),
        ("gelu tanh", lambda x: gelu(x, "tanh"), lambda x: gelu_reference(x, "tanh"), [shape]),
        ("softmax", softmax, softmax_reference, [shape]),
        ("swiglu", swiglu, swiglu_reference, [shape, shape]),
        ("layer norm", layer_norm, normed(True), [shape, columns, columns]),
        (
            "RMS norm",
            lambda x, w: rms_norm(x, w, 1e-5),
            lambda x, w: normed(False)(x, w, None),
            [shape, columns],
        ),
        (
            "rotary",
            lambda x: rotary(x, *tables),
            lambda x: rotary_reference(x, *(t.double() for t in tables)),
            [rotated],
        ),
    ]


NAMES = [case[0] for case in cases((2, 2))]


def made(shapes, dtype, scale=3.0):
    generator = torch.Generator().manual_seed(hash(str(shapes)) % 1000)
    drawn = [scale * torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]
    return [tensor.to(dtype).requires_grad_() for tensor in drawn]


def exact(reference, arguments, grad):
    doubles = [a.detach().double().requires_grad_() for a in arguments]
    out = reference(*doubles)
    return out.detach(), torch.autograd.grad(out, doubles, grad.double())


@pytest.mark.skipif(native.library() is None, reason="no C compiler")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_the_compiled_operators_are_within_two_units_in_the_last_place(name, shape, dtype):
    _, operator, reference, shapes = cases(shape)[NAMES.index(name)]
    arguments = made(shapes, dtype)
    with pinned("*", "native"):
        out = operator(*arguments)
        grad = torch.randn(out.shape).to(dtype)
        found = torch.autograd.grad(out, arguments, grad)
    value, gradients = exact(reference, arguments, grad)
    if name == "softmax":  # its gradient is computed from the output, which has been rounded
        gradients = (softmax_slope(grad.double(), out.detach().double()),)
    assert out.dtype == dtype and out.shape == value.shape
    # terms that cancel: x and a mean of 3; both products of a rotation; a bias of 3
    floor = 0.0 if name in {"gelu", "gelu tanh", "softmax", "swiglu"} else 2.0**-6
    assert ulp_error(out, value, floor) <= 2
    for one, right in zip(found, gradients, strict=True):
        assert one.shape == right.shape
        scale = right.abs().max().item() if right.numel() else 0.0
        assert ulp_error(one, right, scale * 2.0**-4) <= 2


@pytest.mark.parametrize("name", NAMES)
def test_torchs_own_operations_are_near(name, monkeypatch):
    _, operator, reference, shapes = cases((5, 129))[NAMES.index(name)]
    arguments = made(shapes, torch.float32)
    with pinned("*", "torch"), monkeypatch.context() as patched:
        patched.setattr(route, "pinned_name", lambda _: "native")  # the operator with torch inside
        out = operator(*arguments)
        grad = torch.randn(out.shape)
        found = torch.autograd.grad(out, arguments, grad)
    value, gradients = exact(reference, arguments, grad)
    torch.testing.assert_close(out.double(), value, rtol=1e-5, atol=1e-5)
    for one, right in zip(found, gradients, strict=True):
        torch.testing.assert_close(one.double(), right, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_and_their_gradients_are_those_of_the_function(name):
    _, operator, _, shapes = cases((3, 5))[NAMES.index(name)]
    arguments = made(shapes, torch.float64, 1.0)
    with pinned("*", "native"):  # through the operator, whose own slopes serve float64
        assert torch.autograd.gradcheck(operator, arguments)
        assert torch.autograd.gradgradcheck(operator, arguments)


@pytest.mark.parametrize("operator", [add_layer_norm, add_rms_norm])
def test_a_norm_with_a_residual_returns_the_sum_and_has_its_gradient(operator):
    arguments = made([(3, 5), (3, 5), (5,)], torch.float64, 1.0)
    out, total = operator(*arguments)
    assert torch.equal(total, arguments[0] + arguments[1])
    centred = operator is add_layer_norm
    eps = 1e-5 if centred else 1e-6
    assert torch.allclose(out, norm.reference(total, arguments[2], None, eps, centred))
    assert torch.autograd.gradcheck(operator, arguments)
    with pinned("*", "native"):
        single = [a.detach().float().requires_grad_() for a in arguments]
        y, h = operator(*single)
        got = torch.autograd.grad((y * y + h * 3).sum(), single)
    want = torch.autograd.grad((out * out + total * 3).sum(), arguments)
    for one, right in zip(got, want, strict=True):
        torch.testing.assert_close(one.double(), right, rtol=1e-5, atol=1e-5)


SAMPLES = {
    "gelu": lambda x, w: (x, "none"),
    "softmax": lambda x, w: (x,),
    "swiglu": lambda x, w: (x, x.detach().clone().requires_grad_()),
    "norm": lambda x, w: (x, x.detach().clone().requires_grad_(), w, None, 1e-5, True),
    "rotary": lambda x, w: (x, torch.rand(4, 3), torch.rand(4, 3), False),
    "cross_entropy_rows": lambda x, w: (x[0], torch.tensor([0, -100, 2, 3][: len(x[0])]), -100),
    "linear_cross_entropy": lambda x, w: (
        x[0],
        torch.randn(9, 6, requires_grad=True),
        None,
        torch.randint(9, (4,)),
        -100,
        3,
    ),
}


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", SAMPLES)
def test_torchs_operator_check_passes(name, transposed):
    x = torch.randn(2, 6, 4).mT if transposed else torch.randn(2, 4, 6)
    x.requires_grad_()
    opcheck(getattr(torch.ops.hotlap, name).default, SAMPLES[name](x, torch.rand(6)))


@pytest.mark.parametrize("form", ["none", "tanh"])
def test_gelu_of_what_is_not_finite_is_as_torchs(form):
    x = torch.tensor([float("nan"), float("inf"), 1e30, -1e30, 1e-40, -0.0, 700.0, -700.0, 13.0])
    with pinned("gelu", "native"):
        found = gelu(x, form)
    want = torch.nn.functional.gelu(x.double(), approximate=form).float()
    torch.testing.assert_close(found, want, equal_nan=True, rtol=1e-6, atol=2e-45)


def test_softmax_of_what_is_not_finite_is_as_torchs():
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([[1.0, nan, 2.0], [1.0, inf, 2.0], [-inf] * 3, [-inf, 0.0, 1e30], [5.0] * 3])
    with pinned("softmax", "native"):
        found = softmax(x)
    torch.testing.assert_close(found, torch.softmax(x, -1), equal_nan=True)


def test_every_layout_gives_the_same():
    base = torch.randn(4, 6, 8)
    for x in (
        base.mT,
        base[:, ::2],
        base[1:, :, 3:],
        base.permute(2, 0, 1),
        base[:1].expand(3, 6, 8),
    ):
        with pinned("*", "native"):
            torch.testing.assert_close(gelu(x), torch.nn.functional.gelu(x))
            torch.testing.assert_close(softmax(x), torch.softmax(x, -1))
            torch.testing.assert_close(softmax(x, 1), torch.softmax(x, 1))
            torch.testing.assert_close(
                layer_norm(x), torch.nn.functional.layer_norm(x, x.shape[-1:])
            )
            torch.testing.assert_close(swiglu(x, x), torch.nn.functional.silu(x) * x)


@pytest.mark.parametrize("chunk", [1, 64 << 20])
def test_cross_entropy_from_hidden_states_is_that_of_the_logits(monkeypatch, chunk):
    monkeypatch.setattr(cross_entropy, "CHUNK_BYTES", chunk)
    hidden, weight, bias = made([(5, 9, 6), (11, 6), (11,)], torch.float64, 1.0)
    target = torch.randint(11, (5, 9))
    target[0, :4] = -100

    def plain(hidden, weight, bias):
        return cross_entropy.reference(hidden.reshape(-1, 6), weight, target.reshape(-1), bias)

    def chunked(hidden, weight, bias):
        return linear_cross_entropy(hidden, weight, target, bias)

    torch.testing.assert_close(chunked(hidden, weight, bias), plain(hidden, weight, bias))
    assert torch.autograd.gradcheck(chunked, (hidden, weight, bias))
    assert torch.autograd.gradgradcheck(chunked, (hidden, weight, bias))
    single = [t.detach().float().requires_grad_() for t in (hidden, weight, bias)]
    loss = chunked(*single)
    assert abs(loss.item() - plain(hidden, weight, bias).item()) < 1e-6
    want = torch.autograd.grad(3 * plain(hidden, weight, bias), (hidden, weight, bias))
    for one, right in zip(torch.autograd.grad(3 * loss, single), want, strict=True):
        torch.testing.assert_close(one.double(), right, rtol=1e-4, atol=1e-6)


def test_all_targets_ignored_is_nan_as_torchs_and_a_wrong_class_is_refused():
    hidden, weight = torch.randn(3, 4), torch.randn(5, 4)
    assert linear_cross_entropy(hidden, weight, torch.full((3,), -100)).isnan()
    with pytest.raises(IndexError):
        linear_cross_entropy(hidden, weight, torch.tensor([0, 1, 5]))
    with pytest.raises(IndexError):
        linear_cross_entropy(hidden, weight, torch.tensor([0, 1, -7]))


def test_autocast_is_as_torchs():
    x = torch.randn(3, 8)
    with torch.autocast("cpu", torch.bfloat16):
        assert softmax(x.bfloat16()).dtype == torch.softmax(x.bfloat16(), -1).dtype
        loss = linear_cross_entropy(x, torch.randn(5, 8), torch.tensor([0, 1, 2]))
    assert loss.dtype == torch.float32


def test_nothing_breaks_the_graph():
    torch._dynamo.reset()
    weight = torch.randn(11, 8)
    target = torch.randint(11, (6,))

    def network(x):
        x = layer_norm(gelu(x), eps=1e-5)
        x, total = add_rms_norm(softmax(x), swiglu(x, x))
        return linear_cross_entropy(x + total, weight, target)

    x = torch.randn(6, 8, requires_grad=True)
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    (want,) = torch.autograd.grad(network(x), x)
    for implementation in ("native", "torch"):
        torch._dynamo.reset()
        with pinned("*", implementation):
            (found,) = torch.autograd.grad(compiled(x), x)
        torch.testing.assert_close(found, want)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: gelu(torch.ones(2), "fast"), "'none' or 'tanh'"),
        (lambda: swiglu(torch.ones(2), torch.ones(3)), "one shape"),
        (lambda: layer_norm(torch.ones(2, 3), torch.ones(2)), "weight has shape"),
        (lambda: layer_norm(torch.tensor(1.0)), "at least one dimension"),
        (lambda: rotary(torch.ones(2, 3), torch.ones(2, 1), torch.ones(2, 1)), "even dim"),
        (lambda: linear_cross_entropy(torch.ones(2, 3), torch.ones(4, 2), torch.ones(2)), "fit"),
    ],
)
def test_what_does_not_fit_is_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_the_implementation_is_measured_once_kept_and_can_be_pinned(monkeypatch, tmp_path):
    from hotlap.kernels import dispatch

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    dispatch._place.cache_clear()
    calls = []

    def slow(x):
        calls.append("slow")
        torch.mm(torch.ones(300, 300), torch.ones(300, 300))
        return x + 1

    implementations = {
        "torch": dispatch.Implementation(slow),
        "quick": dispatch.Implementation(lambda x: calls.append("quick") or x + 1),
        "never": dispatch.Implementation(slow, lambda x: False),
    }
    x = torch.ones(3)
    try:
        first = dispatch.Dispatcher("made_up", implementations)
        first(x)
        assert first.choice(x) == "quick"
        del calls[:]
        dispatch.Dispatcher("made_up", implementations)(x)
        assert calls == ["quick"], "remembered from the file"
        with pinned("made_up", "torch"):
            assert first.choice(x) == "torch"
        monkeypatch.setenv(dispatch.VARIABLE, "other=quick, made_up=never")
        assert first.choice(x) == "torch", "what is pinned but does not serve falls back"
        with pytest.raises(ValueError, match="no operator"):
            dispatch.pin("jelu", "torch")
        with pytest.raises(ValueError, match="no implementation"):
            dispatch.pin("gelu", "cuda")
    finally:
        dispatch._known.pop("made_up", None)
        dispatch._place.cache_clear()


@pytest.fixture
def no_choices(monkeypatch, tmp_path):
    from hotlap.kernels import dispatch

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    dispatch._place.cache_clear()
    yield dispatch
    dispatch._known.pop("made_up", None)
    dispatch._place.cache_clear()


@pytest.mark.parametrize(
    ("ours", "chosen"),
    [
        ([1.0] * 9, "torch"),  # no gain
        ([0.5] * 9, "ours"),
        ([0.98] * 9, "torch"),  # within the margin
        ([0.5, 2.0, 0.5, 2.0, 0.5, 2.0, 0.5, 0.5, 0.5], "torch"),  # the median alone is no proof
    ],
)
def test_an_implementation_must_be_faster_by_a_margin_and_most_of_the_time(
    no_choices, monkeypatch, ours, chosen, caplog
):
    times = {"torch": [1.0] * 9, "ours": ours}
    monkeypatch.setattr(no_choices, "measure", lambda calls, on_gpu: times)
    with caplog.at_level("DEBUG", "hotlap.kernels"):
        assert no_choices.choose("made up", {"torch": None, "ours": None}, torch.ones(1)) == chosen
    assert f"{chosen} is used" in caplog.text
    levels = {record.levelname for record in caplog.records}
    assert levels == {"DEBUG"}  # nothing in the log of a script that logs at INFO
    assert no_choices.remembered("made up", ("torch", "ours")) == chosen


def test_a_whole_call_goes_to_the_faster_side_and_is_measured_with_its_gradient(no_choices):
    calls = []

    def slow(x):
        calls.append((x.requires_grad, torch.is_grad_enabled()))
        for _ in range(20):
            torch.mm(torch.ones(300, 300), torch.ones(300, 300))
        return x * 2

    implementations = {
        "torch": no_choices.Implementation(slow),
        "quick": no_choices.Implementation(lambda x: x * 2),
    }
    made_up = no_choices.Dispatcher("made_up", implementations)
    x = torch.ones(1 << 14, requires_grad=True)
    quick = route.Route(made_up, slow, lambda x: x * 2)
    assert quick.choice(x) == "operator"
    assert calls and all(grad == (True, True) for grad in calls)
    assert quick.choice(torch.ones(4)) == "torch", "too small"
    assert torch.func.vmap(quick)(torch.ones(2, 1 << 14)).shape == (2, 1 << 14)
    slower = route.Route(no_choices.Dispatcher("made_up", implementations), lambda x: x * 2, slow)
    (no_choices._place()).unlink()
    assert slower.choice(x) == "torch"


def test_measuring_inside_of_a_checkpoint_leaves_its_count_of_saved_tensors_alone(no_choices):
    from torch.utils.checkpoint import checkpoint

    x = torch.randn(64, 512, requires_grad=True)
    found = torch.autograd.grad(checkpoint(gelu, x, use_reentrant=False).sum(), x)
    want = torch.autograd.grad(torch.nn.functional.gelu(x).sum(), x)
    torch.testing.assert_close(found, want)


def test_a_graph_that_is_kept_gives_the_same_gradients_again():
    hidden, weight, bias = made([(40, 6), (11, 6), (11,)], torch.float32, 1.0)
    loss = linear_cross_entropy(hidden, weight, torch.randint(11, (40,)), bias)
    first = torch.autograd.grad(2 * loss, (hidden, weight, bias), retain_graph=True)
    kept = [g.clone() for g in first]
    second = torch.autograd.grad(2 * loss, (hidden, weight, bias))
    for one, two, before in zip(first, second, kept, strict=True):
        assert torch.equal(one, before) and torch.equal(two, before)


def test_the_gradient_of_the_gradient_of_cross_entropy_of_logits():
    of_logits = cross_entropy.cross_entropy
    (x,) = made([(5, 7)], torch.float64, 1.0)
    target = torch.tensor([0, 6, -100, 3, 3])
    assert torch.autograd.gradcheck(lambda x: of_logits(x, target), (x,))
    assert torch.autograd.gradgradcheck(lambda x: of_logits(x, target), (x,))
    with pytest.raises(ValueError, match="reduction must be"):
        of_logits(x, target, reduction="median")
