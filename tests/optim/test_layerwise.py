"""LARS, LAMB and NVLAMB against the papers, in every dtype and memory format."""

import copy
import io
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from hotlap.optim import LAMB, LARS, NVLAMB
from hotlap.optim import layerwise as layerwise_module
from optim.reference import ReferenceLAMB, ReferenceLARS, norm

SHAPES = [(7, 5), (5,), (3, 4, 3, 3), (11,), (2, 40)]
Make = Callable[..., torch.optim.Optimizer]


def together(kind: type) -> type:
    """The optimizer with the multi-tensor path of other devices, on the CPU."""

    def _alone(self: Any, leaves: Any, group: Any, scale: float | None) -> None:
        for found in leaves:
            prepared = None if scale is None else torch.tensor(scale, dtype=torch.float64)
            self._together([found], group, prepared)

    return type(kind.__name__, (kind,), {"_alone": _alone, "_compiled": lambda *_: False})


def eager(kind: type) -> type:
    """The optimizer as it is where there is no compiler."""
    return type(kind.__name__, (kind,), {"_compiled": lambda *_: False})


KINDS = [
    (LARS, ReferenceLARS, {"lr": 0.5, "decay": 0.02}),
    (LAMB, ReferenceLAMB, {"lr": 0.01, "decay": 0.02}),
]
PATHS = [lambda kind: kind, eager, together]
IDS = ["compiled", "eager", "together"]
TWO = [LARS, LAMB, eager(LARS), eager(LAMB)]
THREE = [*TWO, NVLAMB, eager(NVLAMB)]


def parameters(dtype: torch.dtype = torch.float64, seed: int = 0) -> list[torch.Tensor]:
    torch.manual_seed(seed)
    return [torch.randn(shape, dtype=torch.float64).to(dtype).requires_grad_() for shape in SHAPES]


def options(reference: dict[str, float]) -> dict[str, float]:
    return {"lr": reference["lr"], "weight_decay": reference["decay"]}


def fill(ps: list[torch.Tensor], step: int) -> None:
    generator = torch.Generator().manual_seed(100 + step)
    for p in ps:
        p.grad = torch.randn(p.shape, dtype=torch.float64, generator=generator).to(p.dtype)


def flat(tensor: torch.Tensor) -> list[float]:
    return tensor.detach().double().flatten().tolist()


def far(ps: list[torch.Tensor], ws: list[list[float]]) -> float:
    return max(
        norm([a - b for a, b in zip(flat(p), w, strict=True)]) / norm(w)
        for p, w in zip(ps, ws, strict=True)
    )


@pytest.mark.parametrize("path", PATHS, ids=IDS)
@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize(("kind", "reference", "given"), KINDS, ids=["LARS", "LAMB"])
@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-13), (torch.float32, 1e-5)])
def test_follows_the_paper(
    kind: type, reference: type, given: Any, dtype: Any, near: float, maximize: bool, path: Any
) -> None:
    ps = parameters(dtype)
    ws = [flat(p) for p in ps]
    references = [reference(**given, adapt=p.dim() > 1) for p in ps]
    optimizer = path(kind)(ps, maximize=maximize, **options(given))
    for step in range(12):
        fill(ps, step)
        sign = -1.0 if maximize else 1.0
        for i, p in enumerate(ps):
            ws[i] = references[i].step(ws[i], [sign * g for g in flat(p.grad)])
        optimizer.step()
    assert far(ps, ws) < near


@pytest.mark.parametrize("path", PATHS, ids=IDS)
@pytest.mark.parametrize(
    ("more", "changed"),
    [
        ({"bias_correction": False}, {"correct": False}),
        ({"norm_bounds": (0.5, 2.0)}, {"phi": lambda z: min(max(z, 0.5), 2.0)}),
        ({"betas": (0.8, 0.95), "eps": 1e-3}, {"betas": (0.8, 0.95), "eps": 1e-3}),
        ({"weight_decay": 0.0}, {"decay": 0.0}),
    ],
    ids=["uncorrected", "phi", "betas", "no decay"],
)
def test_lamb_takes_its_options(more: Any, changed: Any, path: Any) -> None:
    ps = parameters()
    ws = [flat(p) for p in ps]
    references = [ReferenceLAMB(**({"lr": 0.01} | changed), adapt=p.dim() > 1) for p in ps]
    optimizer = path(LAMB)(ps, lr=0.01, **more)
    for step in range(8):
        fill(ps, step)
        ws = [r.step(w, flat(p.grad)) for r, w, p in zip(references, ws, ps, strict=True)]
        optimizer.step()
    assert far(ps, ws) < 1e-12


@pytest.mark.parametrize("most", [None, 1.0, 1e6])
@pytest.mark.parametrize("path", PATHS, ids=IDS)
def test_nvlamb_divides_by_the_global_norm(most: float | None, path: Any) -> None:
    ps = parameters()
    ws = [flat(p) for p in ps]
    references = [ReferenceLAMB(lr=0.01, adapt=p.dim() > 1) for p in ps]
    optimizer = path(NVLAMB)(ps, lr=0.01, max_grad_norm=most)
    for step in range(8):
        fill(ps, step)
        before = [p.grad.clone() for p in ps]
        total = norm([g for p in ps for g in flat(p.grad)])
        scale = 1 / total if most is None else 1 / max(1.0, total / most)
        for i, p in enumerate(ps):
            ws[i] = references[i].step(ws[i], [g * scale for g in flat(p.grad)])
        optimizer.step()
        assert all(torch.equal(p.grad, g) for p, g in zip(ps, before, strict=True))
    assert far(ps, ws) < 1e-12


def test_lars_can_decay_beside_the_gradient() -> None:
    p = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    w, reference = flat(p), ReferenceLARS(lr=0.5)
    optimizer = LARS([p], lr=0.5, weight_decay=0.1, decoupled=True)
    for step in range(5):
        fill([p], step)
        w = reference.step([x * (1 - 0.5 * 0.1) for x in w], flat(p.grad))
        optimizer.step()
    assert far([p], [w]) < 1e-13


@pytest.mark.parametrize("kind", TWO)
def test_what_is_excluded_can_be_chosen(kind: type) -> None:
    def after(**more: Any) -> torch.Tensor:
        p = torch.arange(1.0, 7.0, requires_grad=True)
        optimizer = kind([{"params": [p], **more}], lr=0.1, weight_decay=0.1)
        p.grad = torch.ones(6)
        optimizer.step()
        return p.detach()

    assert torch.equal(after(), after(layerwise=False))
    assert not torch.equal(after(), after(exclude_1d=False))


@pytest.mark.parametrize("kind", TWO)
@pytest.mark.parametrize("zero", ["weight", "gradient"])
def test_zeros_do_no_harm(kind: type, zero: str) -> None:
    p = (torch.zeros(3, 3) if zero == "weight" else torch.ones(3, 3)).requires_grad_()
    p.grad = torch.zeros(3, 3) if zero == "gradient" else torch.ones(3, 3)
    kind([p], lr=0.1, weight_decay=0.0).step()
    assert torch.isfinite(p).all()
    assert (p != 0).all()


@pytest.mark.parametrize("kind", THREE)
@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_a_gradient_that_is_not_finite_stays_with_its_parameter(kind: type, bad: float) -> None:
    ps = [torch.randn(6, 4).requires_grad_() for _ in range(3)]
    for p in ps:
        p.grad = torch.randn_like(p)
    ps[0].grad[1, 2] = bad
    optimizer = kind(ps, lr=0.01)
    if issubclass(kind, NVLAMB):  # its global norm carries it everywhere; what comes after is clean
        ps[1].grad, ps[2].grad = None, None
    optimizer.step()
    assert not torch.isfinite(ps[0]).all()
    ps[0].grad = None
    ps[1].grad, ps[2].grad = torch.randn(6, 4), torch.randn(6, 4)
    optimizer.step()
    assert torch.isfinite(torch.stack(ps[1:])).all()


@pytest.mark.parametrize("path", PATHS, ids=IDS)
@pytest.mark.parametrize("kind", [LARS, LAMB])
def test_bfloat16_parameters_have_float32_state_and_a_float32_master(kind: type, path: Any) -> None:
    half, full = parameters(torch.bfloat16), parameters(torch.float32)
    for p, q in zip(half, full, strict=True):
        q.data.copy_(p.data)
    optimizers = [path(kind)(ps, lr=1e-4) for ps in (half, full)]
    for step in range(20):
        fill(half, step)
        for p, q in zip(half, full, strict=True):
            q.grad = p.grad.float()
        for optimizer in optimizers:
            optimizer.step()
    for p, q in zip(half, full, strict=True):
        state = optimizers[0].state[p]
        assert {value.dtype for value in state.values()} == {torch.float32}
        assert torch.equal(state["master"], q.detach())
        assert torch.equal(p.detach(), q.detach().bfloat16())


def test_without_a_master_bfloat16_is_rounded_each_step() -> None:
    p = torch.ones(8, 8, dtype=torch.bfloat16, requires_grad=True)
    optimizer = LAMB([p], lr=1e-4, master_weights=False)
    for _ in range(20):
        p.grad = torch.ones_like(p)
        optimizer.step()
    assert "master" not in optimizer.state[p]
    assert (p == 1).all()  # each step is below the rounding of 1


@pytest.mark.parametrize("kind", THREE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_state_dict_round_trip_is_bitwise(kind: type, dtype: torch.dtype) -> None:
    ps = parameters(dtype)
    optimizer = kind(ps, lr=1e-2, weight_decay=0.1)
    for step in range(3):
        fill(ps, step)
        optimizer.step()
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    qs = [p.detach().clone().requires_grad_() for p in ps]
    other = kind(qs, lr=1.0)
    other.load_state_dict(torch.load(file, weights_only=True))
    for p, q in zip(ps, qs, strict=True):
        for name, value in optimizer.state[p].items():
            assert other.state[q][name].dtype == value.dtype
            assert torch.equal(other.state[q][name], value)
    for step in range(3, 6):
        fill(ps, step)
        fill(qs, step)
        optimizer.step()
        other.step()
    assert all(torch.equal(p, q) for p, q in zip(ps, qs, strict=True))


@pytest.mark.parametrize("kind", [LARS, LAMB])
def test_copies_and_pickles_go_on(kind: type) -> None:
    model = nn.Linear(4, 3)
    optimizer = kind(model.parameters(), lr=0.1)
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    twin, theirs = copy.deepcopy((model, optimizer))
    for net, opt in ((model, optimizer), (twin, theirs)):
        opt.zero_grad()
        net(torch.ones(2, 4)).sum().backward()
        opt.step()
    assert torch.equal(model.weight, twin.weight)


@pytest.mark.parametrize("kind", TWO)
@pytest.mark.parametrize("layout", ["channels_last", "transposed", "sliced", "gradient"])
def test_memory_formats_make_no_difference(kind: type, layout: str) -> None:
    torch.manual_seed(1)
    plain = torch.randn(6, 4, 3, 5)
    if layout == "sliced":
        odd = torch.zeros(6, 4, 3, 9)[..., :5].copy_(plain)
    elif layout == "transposed":
        odd = plain.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0)
    else:
        odd = plain.clone()
        odd = odd.contiguous(memory_format=torch.channels_last) if layout[0] == "c" else odd
    a, b = plain.clone().requires_grad_(), odd.requires_grad_()
    optimizers = [kind([p], lr=0.1, weight_decay=0.1) for p in (a, b)]
    for step in range(4):
        fill([a], step)
        b.grad = a.grad.clone()
        if layout == "gradient":
            b.grad = b.grad.contiguous(memory_format=torch.channels_last)
        for optimizer in optimizers:
            optimizer.step()
    torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)
    assert b.stride() == odd.stride()


def test_a_state_of_another_layout_is_taken() -> None:
    a = torch.randn(6, 4, 3, 5).requires_grad_()
    b = a.detach().clone(memory_format=torch.channels_last).requires_grad_()
    optimizers = [LAMB([p], lr=0.1) for p in (a, b)]
    for step in range(4):
        fill([a, b], step)
        b.grad = a.grad.clone()
        if step == 2:
            optimizers[1].load_state_dict(copy.deepcopy(optimizers[0].state_dict()))
        for optimizer in optimizers:
            optimizer.step()
    torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", [LAMB, NVLAMB])
def test_chunks_make_no_difference(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for size in (1 << 20, 16):
        monkeypatch.setattr(layerwise_module, "CHUNK", size)
        ps = parameters()
        optimizer = eager(kind)(ps, lr=0.1)
        for step in range(4):
            fill(ps, step)
            optimizer.step()
        results.append(ps)
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("path", PATHS, ids=IDS)
@pytest.mark.parametrize("kind", [LARS, LAMB])
def test_the_rate_can_be_a_tensor_and_parameters_can_lack_gradients(kind: type, path: Any) -> None:
    ps, qs = parameters(), parameters()
    one, other = path(kind)(ps, lr=0.25), path(kind)(qs, lr=torch.tensor(0.25))
    for step in range(3):
        fill(ps, step)
        fill(qs, step)
        ps[0].grad = qs[0].grad = None
        one.step()
        other.step()
    assert all(torch.equal(p, q) for p, q in zip(ps, qs, strict=True))
    assert torch.equal(ps[0], parameters()[0])
    assert ps[0] not in one.state


def test_a_closure_is_called_with_grad_and_its_loss_returned() -> None:
    p = torch.ones(2, 2, requires_grad=True)
    optimizer = LAMB([p], lr=0.1)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 4.0
    assert (p < 1).all()


def test_a_gradscaler_works() -> None:
    p = torch.ones(2, 2, requires_grad=True)
    optimizer, scaler = LAMB([p], lr=0.1), torch.amp.GradScaler("cpu", init_scale=8.0)
    q = torch.ones(2, 2, requires_grad=True)
    scaler.scale((p * p).sum()).backward()
    scaler.step(optimizer)
    plain = LAMB([q], lr=0.1)
    (q * q).sum().backward()
    plain.step()
    assert torch.equal(p, q)


def test_sparse_gradients_are_refused() -> None:
    table = nn.Embedding(5, 3, sparse=True)
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match=r"LAMB takes no sparse.*\(5, 3\).*SparseAdam"):
        LAMB(table.parameters()).step()


@pytest.mark.parametrize(
    ("kind", "bad", "words"),
    [
        (LARS, {"lr": -0.1}, "LARS: lr is -0.1; it must be"),
        (LARS, {"lr": math.nan}, "lr is nan"),
        (LARS, {"momentum": 1.0}, "momentum is 1.0; it must be at least 0 and below 1"),
        (LARS, {"trust_coefficient": -1}, "trust_coefficient"),
        (LARS, {"decoupled": 1}, "decoupled is 1; it must be True or False"),
        (LAMB, {"betas": (0.9, 1.0)}, r"betas is \(0.9, 1.0\)"),
        (LAMB, {"betas": 0.9}, "betas is 0.9"),
        (LAMB, {"eps": "small"}, "eps is 'small'"),
        (LAMB, {"weight_decay": -1.0}, "weight_decay"),
        (LAMB, {"norm_bounds": (2.0, 1.0)}, "norm_bounds"),
        (NVLAMB, {"max_grad_norm": 0.0}, "NVLAMB: max_grad_norm is 0.0"),
    ],
)
def test_bad_options_are_refused(kind: type, bad: dict[str, Any], words: str) -> None:
    p = torch.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match=words):
        kind([p], **bad)
    if "max_grad_norm" not in bad:
        with pytest.raises(ValueError, match=words):
            kind([{"params": [p], **bad}])


def test_complex_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match=r"not torch\.complex64"):
        LAMB([torch.ones(2, dtype=torch.complex64, requires_grad=True)])


@pytest.mark.parametrize("kind", THREE)
def test_a_compiled_step_is_the_plain_one_and_is_not_compiled_anew(kind: Make) -> None:
    compiled, graphs = parameters(), []
    plain = [p.detach().clone().requires_grad_() for p in compiled]
    optimizers = kind(compiled, lr=0.1), kind(plain, lr=0.1)

    def backend(module: torch.fx.GraphModule, _: Any) -> Any:
        graphs.append(module)
        return module.forward

    torch._dynamo.reset()
    step = torch.compile(optimizers[0].step, backend=backend)
    for number in range(4):
        for ps in (compiled, plain):
            fill(ps, number)
        before = len(graphs)
        step()
        optimizers[1].step()
        assert number == 0 or len(graphs) == before
    assert all(map(torch.equal, compiled, plain))
    torch._dynamo.reset()
