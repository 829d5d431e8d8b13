"""Cutting a model into stages: names, what is where, what cannot be cut."""

import pytest
import torch
from torch import nn

from hotlap.parallel.splitting import Absent, check, part, stage_names
from parallel.gpt import GPT


def stages(number: int, layers: int = 5) -> list[list[str]]:
    return stage_names(GPT(layers), number)


def test_layers_are_shared_out_evenly() -> None:
    assert stages(2) == [
        ["tok", "pos", "layers.0", "layers.1", "layers.2"],
        ["layers.3", "layers.4", "norm", "head"],
    ]
    assert [len(names) for names in stages(4, 8)] == [4, 2, 2, 4]


def test_a_chain_is_shared_out_whole() -> None:
    layers = (nn.TransformerEncoderLayer(4, 1, 8) for _ in range(2))
    chain = nn.Sequential(nn.Linear(2, 4), *layers, nn.Linear(4, 2))
    assert stage_names(chain, 2) == [["0", "1"], ["2", "3"]]


@pytest.mark.parametrize("number", [2, 3, 5])
def test_the_parts_chained_are_the_whole(number: int) -> None:
    torch.manual_seed(0)
    model = GPT(5)
    ids = torch.randint(0, 32, (3, 7))
    names = stage_names(model, number)
    everything = [name for stage in names for name in stage]
    x = ids
    owned = []
    for stage in names:
        made = part(model, stage, everything)
        owned += list(made.state_dict())
        x = made(x)
    assert torch.equal(x, model(ids))
    assert sorted(owned) == sorted(model.state_dict())


def test_the_model_itself_is_left_alone() -> None:
    model = GPT(4)
    before = [name for name, _ in model.named_parameters()]
    names = stage_names(model, 2)
    made = part(model, names[1], names[0] + names[1])
    assert [name for name, _ in model.named_parameters()] == before
    assert made.layers["2"] is model.layers["2"]
    assert "0" not in made.layers


def test_indices_of_a_list_stay() -> None:
    class Listed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            blocks = (nn.Sequential(nn.Linear(2, 2), nn.Tanh()) for _ in range(4))
            self.inner = nn.Module()
            self.inner.blocks = nn.ModuleList(blocks)
            self.inner.rotary = nn.Module()
            self.inner.rotary.register_buffer("frequencies", torch.ones(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for index in range(len(self.inner.blocks)):
                x = self.inner.blocks[index](x) * (index + 1)
            return x

    model = Listed()
    made = part(model, ["inner.blocks.2"], [f"inner.blocks.{i}" for i in range(4)])
    assert isinstance(made.inner.blocks[1], Absent)
    assert list(dict(made.named_parameters())) == [
        "inner.blocks.2.0.weight",
        "inner.blocks.2.0.bias",
    ]
    assert made.inner.rotary is model.inner.rotary
    names = ["first", "second"]
    model = nn.Sequential()
    for name in names:
        model.add_module(name, nn.Linear(2, 2))
    made = part(model, ["second"], names)
    assert [name for name, _ in made.named_parameters()] == ["second.weight", "second.bias"]


class Bare(GPT):
    """With a parameter of its own, outside any layer."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(16))


def test_a_parameter_on_no_stage() -> None:
    model = Bare()
    with pytest.raises(ValueError, match="scale is on no stage"):
        check(model, stage_names(model, 2))
    names = stage_names(model, 2)
    names[0].append("scale")
    check(model, names)
    everything = names[0] + names[1]
    assert part(model, names[0], everything).scale is model.scale
    assert part(model, names[1], everything).scale is None


def test_what_cannot_be_cut() -> None:
    model = GPT(2)
    with pytest.raises(ValueError, match="2 layers cannot make 3 stages"):
        stage_names(model, 3)
    with pytest.raises(ValueError, match="no list of layers of one kind"):
        stage_names(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), 2)
    names = stage_names(model, 2)
    with pytest.raises(ValueError, match=r"called 'layers\.7'"):
        check(model, [[*names[0], "layers.7"], names[1]])
    with pytest.raises(ValueError, match="stages 0 and 1, and would be trained twice"):
        check(model, [[*names[0], "norm"], names[1]])
    model.head.weight = model.tok.weight
    with pytest.raises(ValueError, match="a pipeline cannot tie them"):
        check(model, names)


def test_a_forward_that_does_not_chain_is_an_error() -> None:
    absent = Absent()
    x = torch.randn(2, 3)
    assert absent(x, None, mask=None) is x
    for wrong in (torch.arange(3), None, (x, x)):
        with pytest.raises(RuntimeError, match="chain its layers"):
            absent(wrong)
