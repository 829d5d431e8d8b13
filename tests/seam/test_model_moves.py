from collections import namedtuple
from dataclasses import dataclass

import pytest
import torch
from applying import on, torch_is_left_as_it_was  # noqa: F401
from torch import nn
from torch.distributions import Categorical, Independent, Normal

Pair = namedtuple("Pair", "a b")


@dataclass
class Out:
    logits: torch.Tensor
    extra: list


class Shaped(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.lin = nn.Linear(8, 8)
        self.shape = shape

    def forward(self, x):
        y = self.lin(x)
        self.seen = y.dtype
        return self.shape(y)


SHAPES = {
    "tensor": (lambda y: y, lambda o: [o]),
    "tuple": (lambda y: (y, None), lambda o: [o[0]]),
    "dict": (lambda y: {"y": y, "n": 3}, lambda o: [o["y"]]),
    "namedtuple": (lambda y: Pair(y, [y]), lambda o: [o.a, o.b[0]]),
    "dataclass": (lambda y: Out(y, [y]), lambda o: [o.logits, o.extra[0]]),
}


@pytest.mark.parametrize("kind", SHAPES)
def test_autocast_computes_low_and_returns_float32(kind):
    shape, leaves = SHAPES[kind]
    model, x = Shaped(shape), torch.randn(4, 8)
    plain = model(x)
    with on("mixed_precision", dtype="bfloat16") as seams:
        out = model(x)
        assert model.seen is torch.bfloat16
        assert type(out) is type(plain)
        for got, was in zip(leaves(out), leaves(plain), strict=True):
            assert got.dtype is torch.float32
            assert torch.allclose(got, was, atol=0.1)
            assert not torch.equal(got, was)
        leaves(out)[0].sum().backward()
        assert model.lin.weight.grad.dtype is torch.float32
    assert seams.holds["mixed_precision"]
    model(x)
    assert model.seen is torch.float32


def test_autocast_leaves_losses_and_other_types_alone():
    with on("mixed_precision", dtype="bfloat16") as seams:
        nn.MSELoss()(torch.ones(2), torch.ones(2))
        assert not seams.holds
        nn.Linear(2, 2).double()(torch.ones(1, 2).double())
        assert "float64" in seams.inerts["mixed_precision"]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert nn.Linear(2, 2)(torch.ones(1, 2)).dtype is torch.bfloat16
    assert not seams.holds


def test_float16_is_for_cuda():
    with on("mixed_precision", dtype="float16") as seams:
        nn.Linear(2, 2)(torch.ones(1, 2))
    assert "CUDA" in seams.inerts["mixed_precision"]


def conv_net():
    torch.manual_seed(3)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3))


def test_channels_last_keeps_values_and_hands_back_the_default_format():
    plain, model, x = conv_net(), conv_net(), torch.randn(2, 3, 12, 12)
    expected, seen = plain(x), []
    model[3].register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    with on("channels_last") as seams:
        out = model(x)
        assert seen[0].is_contiguous(memory_format=torch.channels_last)
        assert not seen[0].is_contiguous()
        assert out.is_contiguous()
        assert torch.allclose(out, expected, atol=1e-5)
        out.sum().backward()
        assert not model[3].weight.is_contiguous()
    assert model[3].weight.is_contiguous()
    assert seams.holds["channels_last"] == ["Sequential"]


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_channels_last_drops_the_elements_that_the_plain_run_drops(dtype, inplace):
    plain, model = (nn.Sequential(*conv_net(), nn.Dropout(0.3, inplace)).to(dtype) for _ in "ab")
    x, runs = torch.randn(2, 3, 12, 12, dtype=dtype), []
    for net, names in ((plain, ()), (model, ("channels_last",))):
        torch.manual_seed(4)
        with on(*names):
            out = net(x)
            out.sum().backward()
        runs.append((out == 0, net[0].weight.grad, torch.rand(1)))
    (dropped, gradient, after), (now, grad, behind) = runs
    assert torch.equal(now, dropped)
    assert torch.equal(behind, after), "as many numbers are drawn"
    assert (grad - gradient).norm() < 0.03 * gradient.norm()
    with on("channels_last"):
        assert torch.equal(model.eval()(x) == 0, torch.zeros_like(dropped)), "nothing in evaluation"


def test_channels_last_leaves_flat_models_alone():
    with on("channels_last") as seams:
        nn.Linear(2, 2)(torch.ones(1, 2))
    assert not seams.holds


def test_evaluation_records_no_gradients():
    model, x = nn.Linear(2, 2), torch.ones(1, 2)
    with on("no_grad_eval") as seams:
        assert model(x).requires_grad
        assert not seams.holds
        model.eval()
        assert not model(x).requires_grad
        assert torch.is_grad_enabled()
        assert model(x.clone().requires_grad_()).requires_grad  # saliency, adversarial
        model.train()
        assert model(x).requires_grad
    model.eval()
    assert model(x).requires_grad
    assert seams.holds


@pytest.mark.parametrize("given", [tuple, lambda pair: {"left": pair[0], "right": [pair[1]]}])
def test_an_input_within_another_may_ask_for_its_gradient(given):
    class Summed(nn.Linear):
        def forward(self, inputs):
            left, right = inputs.values() if isinstance(inputs, dict) else inputs
            return super().forward(left + (right[0] if isinstance(right, list) else right))

    model, x = Summed(2, 2).eval(), torch.ones(1, 2)
    with on("no_grad_eval"):
        assert model(given((x, x.clone().requires_grad_()))).requires_grad
        assert not model(given((x, x))).requires_grad


def test_evaluation_values_are_exact():
    model, x = conv_net().eval(), torch.randn(2, 3, 12, 12)
    plain = model(x)
    with on("no_grad_eval"):
        assert torch.equal(model(x), plain)


@pytest.mark.filterwarnings("ignore")
def test_compile_runs_compiled_code_and_keeps_the_values():
    import torch._inductor.config as inductor
    from torch._dynamo.utils import counters

    def run():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.5), nn.Linear(16, 1))
        out = model(torch.ones(4, 8))
        out.sum().backward()
        return out.detach(), model[0].weight.grad, model

    was = inductor.fallback_random
    out, grad, _ = run()
    counters.clear()
    with on("fused_pointwise", mode="default") as seams:
        fast, fast_grad, model = run()
        assert counters["stats"]["unique_graphs"] == 1
        assert not seams.inerts
        assert inductor.fallback_random
    assert seams.holds["fused_pointwise"]
    assert torch.allclose(out, fast, atol=1e-6)  # the same elements are dropped
    assert torch.allclose(grad, fast_grad, atol=1e-6)
    assert inductor.fallback_random == was
    assert "_compiled_call_impl" not in model.__dict__


@pytest.mark.filterwarnings("ignore")
def test_compile_leaves_a_compiled_model_alone():
    model = torch.compile(nn.Linear(2, 2))
    with on("fused_pointwise", mode="default") as seams:
        model(torch.ones(1, 2))
    assert "already" in seams.inerts["fused_pointwise"]


@pytest.mark.filterwarnings("ignore")
def test_all_wrappers_together():
    torch.manual_seed(0)
    model, x = conv_net(), torch.randn(2, 3, 12, 12)
    plain = model(x)
    names = ("channels_last", "mixed_precision", "fused_pointwise", "no_grad_eval")
    with on(*names, dtype="bfloat16", mode="default") as seams:
        out = model(x)
        out.sum().backward()
        assert out.dtype is torch.float32
        assert torch.allclose(out, plain, atol=0.1)
        model.eval()
        assert not model(x).requires_grad
    assert set(seams.holds) == set(names)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x + nn.functional.dropout(self.norm(self.conv(x)).relu(), 0.3, self.training)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def train(steps=3):
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(2, 4, 6, 6)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model


def test_checkpointing_is_exact_and_recomputes():
    losses, plain = train()
    with on("activation_checkpoint") as seams:
        again, model = train()
        assert model.blocks[0].calls == 2 * plain.blocks[0].calls
    assert again == losses
    for name, value in plain.state_dict().items():  # running statistics among them
        assert torch.equal(value, model.state_dict()[name]), name
    assert seams.holds["activation_checkpoint"] == ["3 blocks: Block"]
    assert all("_compiled_call_impl" not in block.__dict__ for block in model.blocks)


def test_checkpointing_leaves_evaluation_alone():
    model = Net().eval()
    with on("activation_checkpoint"):
        model(torch.randn(1, 4, 6, 6)).sum().backward()
        assert model.blocks[0].calls == 1


def test_checkpointing_says_when_there_are_no_blocks():
    with on("activation_checkpoint") as seams:
        nn.Linear(2, 2)(torch.ones(1, 2))
    assert "no blocks" in seams.inerts["activation_checkpoint"]


@pytest.mark.parametrize("technique", ["no_grad_eval", "inference_mode"])
def test_gradients_by_torch_func_of_a_model_in_evaluation(technique):
    model, x = nn.Linear(4, 2).eval(), torch.randn(3, 4)
    weights = dict(model.named_parameters())

    def loss(weights, x):
        return torch.func.functional_call(model, weights, (x,)).square().sum()

    per_sample = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))
    plain = per_sample(weights, x)
    with on(technique):
        now = per_sample(weights, x)
        assert not model(x).requires_grad, "an evaluation all the same"
    assert all(torch.equal(plain[name], now[name]) for name in plain)


def test_cuda_graphs_leave_a_model_on_the_cpu_as_it_is():
    model, x = torch.nn.Linear(64, 64), torch.randn(4, 64)
    exact = model(x)
    with on("cuda_graphs") as seams:
        assert torch.equal(model(x), exact)
    assert seams.inerts == {"cuda_graphs": "the model is not on a CUDA device"}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_graphs_outputs_may_be_kept():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)).cuda()
    xs = [torch.randn(4, 8, device="cuda") for _ in range(6)]
    plain = [model(x) for x in xs]
    with on("cuda_graphs") as seams:
        kept = [model(x) for x in xs]
        for was, now in zip(plain, kept, strict=True):
            assert torch.allclose(was, now, atol=1e-5)
    assert seams.holds


class Policy(nn.Module):
    """A model whose answer is a distribution, as reinforcement learning writes it."""

    def __init__(self, kind):
        super().__init__()
        self.kind, self.net = kind, nn.Linear(6, 4)

    def forward(self, x):
        out = self.net(x)
        if self.kind is Categorical:
            return Categorical(logits=out)
        return Independent(Normal(out, nn.functional.softplus(out)), 1)


@pytest.mark.parametrize("kind", [Categorical, Normal])
def test_a_distribution_comes_back_in_float32(kind):
    torch.manual_seed(0)
    model, x = Policy(kind), torch.randn(3, 6)
    plain = model(x)
    action = plain.sample()
    with on("mixed_precision", dtype="bfloat16"):
        found = model(x)
        assert type(found) is type(plain)
        assert found.sample().dtype == action.dtype
        assert found.log_prob(action).dtype is torch.float32
        assert torch.allclose(found.log_prob(action), plain.log_prob(action), atol=0.1)
        assert found.entropy().dtype is torch.float32
