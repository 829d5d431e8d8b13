"""Products and state in 8 bits: their effect, their undo, and what is left alone."""

import sys

import pytest
import torch
from applying import on, torch_is_left_as_it_was  # noqa: F401

from hotlap.seam import liger, low_precision

torchao = pytest.importorskip("torchao")
from torchao.float8 import Float8LinearConfig  # noqa: E402


def layer_and_input(rows=32, taken=64, given=48, dtype=torch.float32):
    torch.manual_seed(0)
    return torch.nn.Linear(taken, given).to(dtype), torch.randn(2, rows // 2, taken, dtype=dtype)


def relative_error(found, right):
    return ((found - right).norm() / right.norm()).item()


def test_float8_products_are_near_and_have_all_gradients():
    layer, x = layer_and_input()
    x.requires_grad_()
    found = low_precision.fp8_product(layer, x, emulate=True)
    right = layer(x)
    inputs = (x, layer.weight, layer.bias)
    got = torch.autograd.grad(found.square().sum(), inputs)
    want = torch.autograd.grad(right.square().sum(), inputs)
    assert 1e-4 < relative_error(found, right) < 0.06
    assert all(relative_error(a, b) < 0.15 for a, b in zip(got, want, strict=True))


@pytest.fixture
def int8_on_the_cpu():
    """What torchao's Triton kernel computes, for a machine without a GPU."""
    from torchao.prototype.quantized_training import int8_mm  # noqa: F401

    with torch.library._scoped_library("torchao", "IMPL") as library:

        def product(a, b, rows, columns):
            wide = (a.int() @ b.int()).to(rows.dtype)
            return wide * rows.view(-1, 1) * columns.view(1, -1)

        library.impl("scaled_int8_mm", product, "CPU")
        yield


@pytest.mark.parametrize(("given", "served"), [(64, True), (336, True), (512, False)])
def test_int8_leaves_the_head_of_a_classifier_alone(monkeypatch, given, served):
    """Its gradient would lose nearly all of its entries."""
    monkeypatch.setattr(low_precision, "has_int8", lambda _: True)
    layer, x = layer_and_input(given=given)
    assert low_precision.serves_int8(layer, x) is served
    assert not low_precision.serves_fp8(layer, x)  # a CPU


def test_int8_products_are_near_and_have_all_gradients(int8_on_the_cpu):
    layer, x = layer_and_input()
    x.requires_grad_()
    found, right = low_precision.int8_product(layer, x), layer(x)
    inputs = (x, layer.weight, layer.bias)
    got = torch.autograd.grad(found.square().sum(), inputs)
    want = torch.autograd.grad(right.square().sum(), inputs)
    assert 1e-4 < relative_error(found, right) < 0.03
    assert all(relative_error(a, b) < 0.06 for a, b in zip(got, want, strict=True))


@pytest.mark.parametrize("name", ["fp8_linear", "int8_training"])
def test_the_layers_that_fit_are_taken_where_the_device_can(name, monkeypatch, int8_on_the_cpu):
    plain = torch.nn.Linear.forward
    product = low_precision.fp8_product
    monkeypatch.setattr(low_precision, "fp8_product", lambda *a: product(*a, emulate=True))
    layer, x = layer_and_input()
    with on(name) as seams:
        assert torch.equal(layer(x), plain(layer, x)), "this device has no such products"
        assert not seams.holds
        for test in ("has_fp8", "has_int8"):
            monkeypatch.setattr(low_precision, test, lambda device: True)
        assert not torch.equal(layer(x), plain(layer, x))
        assert seams.holds.pop(name)
        with torch.no_grad():
            layer(x)
        torch.nn.Linear(64, 10)(x)
        layer(x[:, :3])
        layer(x[0, 0])
        torch.nn.modules.linear.NonDynamicallyQuantizableLinear(64, 48)(x)
        assert not seams.holds
    assert torch.nn.Linear.forward is plain


def test_each_side_of_a_product_must_be_a_multiple_of_16():
    assert Float8LinearConfig().pad_inner_dim is False, "else every size would do"


def train(kind, steps, **options):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Tanh(), torch.nn.Linear(128, 1))
    optimizer = kind(model.parameters(), lr=3e-3, **options)
    x = torch.randn(256, 64)
    y = x[:, :8].sum(1, keepdim=True).sin()
    for _ in range(steps):
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model, optimizer, loss.item()


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"fused": True}], ids=str)
def test_adam_with_eight_bit_state_learns_as_well_in_less_memory(kind, options):
    _, plain, want = train(kind, 60, **options)
    with on("eight_bit_optimizer") as seams:
        model, optimizer, found = train(kind, 60, **options)
    assert seams.holds["eight_bit_optimizer"]
    assert found == pytest.approx(want, rel=0.15)
    weight, bias = model[0].weight, model[0].bias
    large, small = optimizer.state[weight], optimizer.state[bias]
    stored = sum(p.nbytes for p in (large["exp_avg"].codes, large["exp_avg"].scale))
    assert stored < 0.3 * weight.nbytes
    assert type(small["exp_avg"]) is torch.Tensor
    assert large["step"] == plain.state[next(iter(plain.state))]["step"]


def test_the_first_step_is_adams():
    with on("eight_bit_optimizer"):
        small, _, _ = train(torch.optim.AdamW, 1)
    plain, _, _ = train(torch.optim.AdamW, 1)
    for one, right in zip(small.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, right, rtol=1e-6, atol=1e-8)


def test_adam_with_amsgrad_keeps_its_state():
    with on("eight_bit_optimizer") as seams:
        parameter = torch.nn.Parameter(torch.randn(64, 64))
        optimizer = torch.optim.Adam([parameter], amsgrad=True)
        parameter.grad = torch.randn(64, 64)
        optimizer.step()
    assert not seams.holds
    assert type(optimizer.state[parameter]["exp_avg"]) is torch.Tensor


@pytest.fixture(scope="module")
def llama():
    """Made before torch's state is recorded: transformers adds a method to torch.nn.Module."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("liger_kernel")
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=2,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def test_liger_is_put_into_a_model_that_it_knows_and_taken_out_again(llama):
    model, home = llama, sys.modules[type(llama).__module__]
    tokens = torch.randint(64, (2, 8))
    want = model(tokens).logits
    module_before = dict(vars(home))
    assert liger.known(model)
    assert "CUDA" in liger.unfit(model)
    restore = liger.apply(model)
    assert any("liger" in str(layer.forward.__module__) for layer in model.modules())
    restore()
    assert all(vars(home)[name] is value for name, value in module_before.items())
    assert torch.equal(model(tokens).logits, want)
    assert not liger.known(torch.nn.Linear(2, 2))
    with on("liger_kernels") as seams:
        model(tokens)
    assert "CUDA" in seams.inerts["liger_kernels"]


def test_without_liger_the_reason_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(liger, "find_spec", lambda name: None)
    with on("liger_kernels") as seams:
        torch.nn.Linear(2, 2)(torch.ones(1, 2))
    assert "pip install liger-kernel" in seams.inerts["liger_kernels"]
