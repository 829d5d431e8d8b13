"""Whatever is replaced in torch looks and behaves to other tools like what it replaces."""

import copy
import inspect
import pickle
from contextlib import contextmanager

import pytest
import torch
from torch.utils.data import DataLoader

from hotlap.core.machine import detect
from hotlap.core.registry import ceilings, technique, techniques
from hotlap.core.spec import Mode, Spec
from hotlap.seam import patch
from hotlap.seam.session import Session

MODES = {
    "run": (Mode.RUN, {}),
    "profile": (Mode.PROFILE, {}),
    "race": (Mode.RACE, {}),
    "batch": (Mode.BATCH, {}),
    "lr": (Mode.LR, {"rates": [0.1], "optimizer": 1}),
}
MOVED = [
    name for name, one in {**techniques(), **ceilings()}.items()
    if one.moves and not name.startswith("ddp_")
]  # fmt: skip


@contextmanager
def session(mode="run", name=""):
    chosen = {}
    if name:
        choices = {choice.name: choice.on(detect())[0] for choice in technique(name).choices}
        chosen = {name: choices | {"dtype": "bfloat16"} if "dtype" in choices else choices}
    kind, options = MODES[mode]
    here = Session(Spec("test", kind, "", chosen, options=options))
    here.enter()
    try:
        yield here
    finally:
        here.undo.close()


def of(function, *arguments):
    """The result, or the kind of error: built-in functions have no signature and no source."""
    try:
        return function(*arguments)
    except Exception as error:
        return type(error)


def names_of(function):
    return function.__name__, function.__doc__


def check(one):
    ours, theirs = one.ours, inspect.unwrap(one.ours)
    where = f"{one.owner}.{one.name}"
    assert theirs is not ours, f"{where} does not name the original"
    assert "hotlap" not in str(getattr(theirs, "__module__", "")), where
    assert "hotlap" not in str(ours.__module__), where
    assert names_of(ours) == names_of(theirs), where
    assert of(inspect.signature, ours) == of(inspect.signature, theirs), where
    assert of(inspect.getsource, ours) == of(inspect.getsource, theirs), where
    if one.active:
        assert pickle.loads(pickle.dumps(ours)) is ours, where
    assert copy.deepcopy(ours) is ours, where
    if not isinstance(one.owner, type):
        find = torch.jit._builtins._find_builtin
        assert find(ours) == find(theirs), f"{where} is another operator to TorchScript"
    if isinstance(one.owner, type):
        below = type("Below", (one.owner,), {})
        assert getattr(below, one.name) is getattr(one.owner, one.name), where


@pytest.mark.parametrize("mode", MODES)
def test_replacements_of_a_mode_look_like_the_originals(mode):
    with session(mode):
        assert patch.patches
        for one in patch.patches:
            check(one)
    assert not patch.patches


@pytest.mark.parametrize("name", MOVED)
def test_replacements_of_a_technique_look_like_the_originals(name):
    with session(name=name):
        for one in patch.patches:
            check(one)
    assert not patch.patches


EVERYWHERE = [(mode, "") for mode in MODES] + [("run", name) for name in MOVED]


@pytest.mark.parametrize(("mode", "name"), EVERYWHERE)
def test_torchscript_compiles_what_it_compiles_without_hotlap(mode, name):
    def constants(x: torch.Tensor) -> torch.Tensor:
        y = torch.tensor([1.0, 2.0]).to(torch.float64).float().cpu()
        return x + y

    def gradient(x: torch.Tensor) -> torch.Tensor:
        y = (x * x).sum()
        (g,) = torch.autograd.grad([y], [x])
        assert g is not None
        return g

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x) + torch.tensor(1.0)

    with session(mode, name):
        one = torch.ones(2)
        assert torch.equal(torch.jit.script(constants)(one), one + torch.tensor([1.0, 2.0]))
        leaf = torch.ones(2, requires_grad=True)
        assert torch.equal(torch.jit.script(gradient)(leaf), 2 * one)
        model = Net()
        with torch.no_grad():
            model(one)  # it is wrapped by now, if models are
            assert torch.allclose(torch.jit.script(model)(one), model(one), atol=0.02)
            assert torch.allclose(torch.jit.trace(model, one)(one), model(one), atol=0.02)


def operations(x):
    y = torch.tensor([1.0, 2.0]).to(torch.float32)
    return (x + y).double().float().cpu()


@pytest.mark.parametrize("mode", MODES)
def test_compiled_functions_have_no_graph_break_of_ours(mode):
    torch._dynamo.reset()
    with session(mode):
        compiled = torch.compile(operations, backend="eager", fullgraph=True)
        assert torch.equal(compiled(torch.ones(2)), torch.tensor([2.0, 3.0]))
    torch._dynamo.reset()


@pytest.mark.parametrize("name", ["async_copy", "no_copy_from_numpy", "debug_off", "grads_to_none"])
def test_compiled_functions_have_no_graph_break_of_a_technique(name):
    torch._dynamo.reset()
    with session(name=name):
        compiled = torch.compile(operations, backend="eager", fullgraph=True)
        assert torch.equal(compiled(torch.ones(2)), torch.tensor([2.0, 3.0]))
    torch._dynamo.reset()


@pytest.mark.parametrize("mode", MODES)
def test_fx_traces_the_same_graph(mode):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    plain = torch.fx.symbolic_trace(model).code, torch.fx.symbolic_trace(operations).code
    with session(mode):
        model(torch.ones(2))
        assert (torch.fx.symbolic_trace(model).code, torch.fx.symbolic_trace(operations).code) == (
            plain
        )


@pytest.mark.parametrize("mode", MODES)
def test_overrides_in_subclasses_reach_torch_through_super(mode):
    class Mine(torch.Tensor):
        def to(self, *args, **kwargs):
            return super().to(*args, **kwargs)

        def backward(self, *args, **kwargs):
            return super().backward(*args, **kwargs)

    class Loader(DataLoader):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)

        def __iter__(self):
            yield from super().__iter__()

    class Step(torch.optim.SGD):
        def zero_grad(self, set_to_none=True):
            super().zero_grad(set_to_none)

    with session(mode):
        value = torch.ones(2).as_subclass(Mine)
        assert type(value.to(torch.float64)) is Mine
        weight = torch.nn.Parameter(torch.ones(2))
        step = Step([weight], lr=0.1)
        for (batch,) in Loader(torch.utils.data.TensorDataset(torch.ones(4, 2)), batch_size=2):
            step.zero_grad()
            (weight * batch).sum().as_subclass(Mine).backward()
            step.step()
    assert torch.allclose(weight, torch.full((2,), 0.6))


@pytest.mark.parametrize("mode", MODES)
def test_models_and_optimizers_are_copied_and_pickled(mode):
    with session(mode):
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.ones(2)).sum().backward()
        optimizer.step()
        for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert torch.equal(other(torch.ones(2)), model(torch.ones(2)))
        again = pickle.loads(pickle.dumps(optimizer))
        assert again.state_dict().keys() == optimizer.state_dict().keys()


def test_what_somebody_else_put_in_our_place_stays():
    class Owner:
        def act(self):
            return "theirs"

    with patch.replaced(Owner, "act", lambda _: lambda self: "ours"):
        Owner.act = lambda self: "somebody else's"
    assert Owner().act() == "somebody else's"


def test_what_was_inherited_is_inherited_again():
    class Base:
        def act(self):
            return "base"

    class Owner(Base):
        pass

    with patch.replaced(Owner, "act", lambda f: lambda self: f"ours, then {f(self)}"):
        assert Owner().act() == "ours, then base"
    assert "act" not in vars(Owner)


def test_value_that_the_program_assigned_meanwhile_stays():
    class Owner:
        flag = False

    with patch.assigned(Owner, "flag", True):
        Owner.flag = "the program's"
    assert Owner.flag == "the program's"
