"""`inference_mode` and `int8_inference`: what they do to a model, and that nothing is left."""

import copy
import io

import pytest
import torch
from applying import on, torch_is_left_as_it_was  # noqa: F401
from torch import nn


class Mlp(nn.Module):
    """Reads its weights as programs do: a dtype, a tied layer, a single sample."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 64)
        self.fc, self.head = nn.Linear(64, 64), nn.Linear(64, 50, bias=False)
        self.head.weight = self.embed.weight
        self.graph = None

    def forward(self, tokens):
        x = self.embed(tokens).to(self.fc.weight.dtype)
        x = self.fc(x).relu()
        self.graph, self.mode = x.grad_fn, torch.is_inference_mode_enabled()
        return {"logits": self.head(x), "last": (self.fc(x[0, 0]), 3)}


@pytest.fixture
def model():
    return Mlp().eval()


TOKENS = torch.arange(24).view(4, 6)


def test_under_inference_mode_outputs_are_equal_and_can_be_written_to(model):
    plain = model(TOKENS)
    with on("inference_mode") as seams:
        found = model(TOKENS)
        assert model.mode
        assert model.graph is None
    assert seams.holds["inference_mode"]
    assert torch.equal(found["logits"], plain["logits"])
    assert not found["logits"].is_inference()
    found["logits"].add_(1)  # an inference tensor would refuse this outside of the mode
    (found["last"][0] * model.fc.weight.sum()).sum().backward()
    model(TOKENS)
    assert not model.mode
    assert model.graph is not None


def test_inference_mode_leaves_an_input_with_its_own_gradient_alone():
    model, x = nn.Linear(4, 2), torch.randn(3, 4, requires_grad=True)
    with on("inference_mode"):
        model(x).sum().backward()
    assert x.grad is not None


def test_int8_rounds_outputs_and_nothing_is_left(model):
    with torch.no_grad():
        plain = model(TOKENS)
        names, state = [n for n, _ in model.named_modules()], model.state_dict()
        with on("int8_inference") as seams:
            found = model(TOKENS)
            assert [n for n, _ in model.named_modules()] == names
            assert model.state_dict().keys() == state.keys()
        assert seams.holds["int8_inference"] == ["2 layers of Mlp"]
        for got, was in ((found["logits"], plain["logits"]), (found["last"][0], plain["last"][0])):
            assert got.shape == was.shape
            assert not torch.equal(got, was)
            assert (got - was).abs().max() < 0.03 * was.abs().max()
        again = model(TOKENS)
    assert torch.equal(again["logits"], plain["logits"])
    assert "forward" not in vars(model.fc)


def test_int8_rows_of_different_sizes_keep_their_precision():
    layer, x = nn.Linear(128, 4, bias=False), torch.randn(16, 128)
    with torch.no_grad(), on("int8_inference"):
        layer.weight[0] *= 1000
        model = nn.Sequential(layer).eval()
        found = model(x)
    was = x @ layer.weight.detach().T
    assert ((found - was).abs().amax(0) < 0.03 * was.abs().amax(0)).all()


def test_int8_follows_weights_that_are_loaded_later(model):
    other = Mlp().eval()
    with torch.no_grad():
        plain = other(TOKENS)["logits"]
        with on("int8_inference"):
            model(TOKENS)
            model.load_state_dict(other.state_dict())
            found = model(TOKENS)["logits"]
    assert (found - plain).abs().max() < 0.02 * plain.abs().max()


def test_int8_copies_and_files_are_plain_layers(model):
    with torch.no_grad(), on("int8_inference"):
        model(TOKENS)
        twin = copy.deepcopy(model)
        memory = io.BytesIO()
        torch.save(model, memory)
    memory.seek(0)
    for found in (twin, torch.load(memory, weights_only=False)):
        assert torch.equal(found(TOKENS)["logits"], model(TOKENS)["logits"])
        found.fc.weight.data.zero_()
        assert torch.equal(found.fc(torch.ones(64)), found.fc.bias)


def test_int8_computes_gradients_as_before(model):
    with on("int8_inference"):
        with torch.no_grad():
            model(TOKENS)
        found = model(TOKENS)["logits"]
    plain = model(TOKENS)["logits"]
    assert torch.equal(found, plain)
    found.sum().backward()
    assert model.fc.weight.grad is not None


def test_int8_leaves_other_layers_alone():
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    half = nn.Sequential(nn.Linear(8, 8).bfloat16()).eval()
    with torch.no_grad(), on("int8_inference") as seams:
        layer(torch.randn(2, 5, 32))
        half(torch.randn(2, 8, dtype=torch.bfloat16))
    assert not seams.holds.get("int8_inference")
