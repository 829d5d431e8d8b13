"""What is put into torch must not hurt the program: not by threads, copies, errors or undo."""

import copy
import gc
import pickle
import sys
import threading
import weakref
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from applying import on, torch_is_left_as_it_was  # noqa: F401
from torch.utils.data import DataLoader

from hotlap.core.move import Keyword
from hotlap.core.spec import Mode, Spec
from hotlap.core.technique import Group, How, Numerics, Technique
from hotlap.seam.checkpointing import _recomputed
from hotlap.seam.moves import Context, applied
from hotlap.seam.roots import SLOT, Roots
from hotlap.seam.session import Session


class Doubled(torch.nn.Module):
    def __init__(self, weight=2.0):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(weight))

    def forward(self, x):
        return x * self.weight


def counting(calls):
    def maker(root, inner):
        def call(*args):
            calls.append(root)
            return inner(*args)

        return call

    return maker


def test_replica_of_data_parallel_computes_with_its_own_weights():
    roots = Roots()
    roots.add(10, counting([]))
    with roots.watching():
        model = Doubled()
        model(torch.ones(1))
        assert SLOT in vars(model)
        replica = model._replicate_for_data_parallel()
        replica.weight = torch.tensor(5.0)  # what replicate() puts there
        assert replica(torch.ones(1)).item() == 5.0
        roots.look()
        replica(torch.ones(1))
        assert replica not in roots.found


def copied(module):
    """A copy as meta-learning libraries make it: by `__dict__`, with weights of its own."""
    copy = type(module).__new__(type(module))
    vars(copy).update(vars(module))
    copy._parameters, copy._buffers = {}, {}
    copy.weight = torch.tensor(5.0)
    return copy


@pytest.mark.parametrize("wanted", [True, False])
def test_copy_of_a_models_attributes_computes_with_its_own_weights(wanted):
    roots = Roots()
    roots.add(10, counting([]) if wanted else lambda root, inner: None)
    with roots.watching():
        model = Doubled()
        before = model(torch.ones(1))
        assert copied(model)(torch.ones(1)).item() == 5.0
        assert model(torch.ones(1)) == before


def test_copy_of_a_recomputed_block_computes_with_its_own_weights():
    block = Doubled()
    vars(block)[SLOT] = _recomputed(block)
    assert copied(block)(torch.ones(1)).item() == 5.0
    assert block(torch.ones(1)).item() != 5.0


def test_a_second_threads_model_keeps_its_wrapper_while_the_first_runs():
    calls = []
    roots = Roots()
    roots.add(10, counting(calls))
    begun, go_on = threading.Event(), threading.Event()

    class Slow(Doubled):
        def forward(self, x):
            begun.set()
            assert go_on.wait(10)
            return super().forward(x)

    with roots.watching():
        slow, other = Slow(), Doubled()
        go_on.set()
        slow(torch.ones(1)), other(torch.ones(1))
        roots._stop()
        calls.clear()
        begun.clear(), go_on.clear()
        thread = threading.Thread(target=slow, args=(torch.ones(1),))
        thread.start()
        assert begun.wait(10)
        other(torch.ones(1))
        go_on.set()
        thread.join()
    assert calls == [slow, other]


def test_a_root_is_wrapped_once_its_parameters_are_initialised():
    """A wrapper may read them: their shapes, their layout, their class."""
    roots, calls = Roots(), []
    roots.add(10, counting(calls))
    lazy = torch.nn.Sequential(torch.nn.LazyLinear(2))
    with roots.watching():
        lazy(torch.ones(1, 3))
        assert calls == []
        lazy(torch.ones(1, 3))
        assert calls == [lazy]


def test_submodules_are_no_roots_when_another_thread_begins_to_look():
    roots = Roots()
    roots.add(10, counting([]))
    begun, go_on = threading.Event(), threading.Event()

    class Slow(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Doubled()

        def forward(self, x):
            begun.set()
            assert go_on.wait(10)
            return self.inner(x)

    with roots.watching():
        slow, other = Slow(), Doubled()
        go_on.set()
        slow(torch.ones(1))
        roots._stop()
        begun.clear(), go_on.clear()
        thread = threading.Thread(target=slow, args=(torch.ones(1),))
        thread.start()
        assert begun.wait(10)
        roots.look()
        go_on.set()
        thread.join()
        other(torch.ones(1))
        assert roots.found == [slow, other]


class Endless:
    """A map-style dataset without `__len__`, whose truth value must not be asked for."""

    def __getitem__(self, index):
        return torch.tensor([float(index)])

    def __bool__(self):
        raise TypeError("an endless dataset is neither true nor false")


class Twelve(Endless):
    def __len__(self):
        return 12


@pytest.mark.parametrize("dataset", [Endless(), Twelve()])
def test_cached_dataset_takes_datasets_without_length_or_truth_value(dataset):
    session = Session(Spec("test", Mode.RUN, "", {"cached_dataset": {}}))
    session.enter()
    try:
        loader = DataLoader(dataset, batch_size=4, sampler=range(12))
        for _ in range(2):
            assert [len(batch) for batch in loader] == [4, 4, 4]
    finally:
        session.undo.close()
    assert ("cached_dataset" in session.inerts) == (not hasattr(dataset, "__len__"))


def technique_of(*moves):
    return Technique(
        id="mine", title="mine", group=Group.COMPUTE, numerics=Numerics.EXACT, how=(How.MOVE,),
        why="", changes="", avoid="", moves=moves,
    )  # fmt: skip


@pytest.fixture
def mine(monkeypatch):
    """A session with a technique of one's own beside a real one."""
    from hotlap.core import registry

    def begin(*moves):
        known = registry.technique
        record = technique_of(*moves)
        monkeypatch.setattr(
            registry, "technique", lambda name: record if name == "mine" else known(name)
        )
        session = Session(Spec("test", Mode.RUN, "", {"mine": {}, "no_grad_eval": {}}))
        session.enter()
        monkeypatch.undo()
        return session

    return begin


def test_technique_that_fails_at_the_start_leaves_the_others_on(mine):
    session = mine(Keyword(("torch.nn.Nothing",), "x", 1))
    try:
        assert session.inerts["mine"].startswith("it failed: ")
        model = Doubled().eval()
        assert not model(torch.ones(1)).requires_grad
        assert session.holds == {"no_grad_eval": ["Doubled"]}
    finally:
        session.undo.close()


class Seams:
    def __init__(self):
        self.roots, self.inerts, self.holds = Roots(), {}, {}

    def held(self, name, note=""):
        self.holds.setdefault(name, note)

    def inert(self, name, why):
        self.inerts.setdefault(name, why)

    def waits(self, name, why):
        pass


def before(root, inner):
    def call(*args):
        raise RuntimeError("of the technique")

    return call


def behind(root, inner):
    def call(*args):
        inner(*args)
        raise RuntimeError("of the technique")

    return call


def at_once(root, inner):
    raise RuntimeError("of the technique")


@pytest.mark.parametrize("maker", [before, behind, at_once])
def test_error_of_a_root_wrapper_does_not_reach_the_program(maker):
    calls, errors = [], []
    roots = Roots()
    roots.add(10, maker, errors.append)
    roots.add(20, counting(calls))
    with roots.watching():
        model = Doubled()
        assert [model(torch.ones(1)).item() for _ in range(3)] == [2.0, 2.0, 2.0]
    assert [str(error) for error in errors] == ["of the technique"]
    assert calls == [model] * 3  # once each: what the model had returned was not computed again


@pytest.mark.parametrize("maker", [counting([])])
def test_error_of_the_model_reaches_the_program_as_it_is(maker):
    class Failing(Doubled):
        def forward(self, x):
            raise KeyError("of the model")

    errors = []
    roots = Roots()
    roots.add(10, maker, errors.append)
    with roots.watching():
        model = Failing()
        for _ in range(2):
            with pytest.raises(KeyError, match="of the model"):
                model(torch.ones(1))
    assert not errors


def test_error_of_the_compiler_leaves_the_model_uncompiled(monkeypatch):
    from hotlap.core.registry import technique

    def fails(*_, **__):
        raise RuntimeError("no compiler on this machine")

    monkeypatch.setattr(torch, "compile", lambda *_, **__: fails)
    seams = Seams()
    (move,) = technique("fused_pointwise").moves
    with (
        applied(move, Context("fused_pointwise", {"mode": "default"}, seams)),
        seams.roots.watching(),
    ):
        assert Doubled()(torch.ones(1)).item() == 2.0
    assert seams.inerts == {
        "fused_pointwise": "it failed: RuntimeError: no compiler on this machine"
    }


def test_keyword_that_the_function_refuses_is_left_out():
    owner = SimpleNamespace(act=None)

    def act(value, fast=None):
        if fast:
            raise ValueError("fast is not for this")
        return value

    owner.act = act
    sys.modules["owner_of_act"] = owner
    seams = Seams()
    try:
        with applied(Keyword(("owner_of_act.act",), "fast", True), Context("mine", {}, seams)):
            assert owner.act(3) == 3
    finally:
        del sys.modules["owner_of_act"]
    assert owner.act is act
    assert seams.inerts == {"mine": "it failed: ValueError: fast is not for this"}
    assert not seams.holds


def test_error_of_the_program_itself_stays_its_own():
    session = Session(Spec("test", Mode.RUN, "", {"persistent_workers": {}}))
    session.enter()
    try:
        with pytest.raises(ValueError, match="batch_size"):
            DataLoader([1, 2], batch_size=-1, num_workers=1)
    finally:
        session.undo.close()
    assert not session.inerts


def test_a_tracer_that_wraps_module_calls_is_not_undone():
    roots = Roots()
    roots.add(10, counting([]))
    with roots.watching():
        ours = torch.nn.Module.__call__

        def traced(module, *args):
            return ours(module, *args)

        torch.nn.Module.__call__ = traced
        Doubled()(torch.ones(1))
        assert torch.nn.Module.__call__ is traced
        torch.nn.Module.__call__ = ours


class Blocks(torch.nn.Module):
    """A small model that every wrapper of a root has something to do in."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.blocks = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(3)))

    def forward(self, x):
        return self.blocks(self.conv(x).mean((2, 3)))


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


WRAPPING = {
    "mixed_precision": {"dtype": "bfloat16"},
    "no_grad_eval": {},
    "inference_mode": {},
    "channels_last": {},
    "activation_checkpoint": {},
    "int8_inference": {},
    "fused_pointwise": {"mode": "default"},
}


@pytest.mark.parametrize("name", WRAPPING)
@pytest.mark.usefixtures("no_collector")
def test_a_model_is_freed_when_the_program_lets_go_of_it(name, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    with on(name, **WRAPPING[name]) as seams:
        for _ in range(3):
            model = Blocks()
            for training in (True, False):
                with torch.set_grad_enabled(training):
                    model.train(training)(torch.randn(2, 3, 5, 5))
            gone = weakref.ref(model.conv)
            del model
            assert gone() is None
        assert seams.roots.found == []


def test_loss_modules_made_anew_in_each_step_let_the_look_end():
    roots = Roots()
    roots.add(10, lambda _, inner: partial(inner))
    model = Doubled()
    with roots.watching():
        for _ in range(8):
            torch.nn.MSELoss()(model(torch.ones(1)), torch.ones(1))
            roots.step()
        assert not roots.looking
        assert roots.found == [model]


class Cloned(Doubled):
    """A model whose state is its whole `__dict__`, as some write it."""

    def __getstate__(self):
        return self.__dict__.copy()

    def __deepcopy__(self, memo):
        twin = type(self)()
        twin.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return twin


@pytest.mark.parametrize("name", ["mixed_precision", "activation_checkpoint"])
@pytest.mark.parametrize("twin", [copied, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_may_outlive_the_model_that_it_was_made_of(name, twin):
    with on(name, **WRAPPING[name]):
        model = torch.nn.Sequential(*(Cloned() for _ in range(3)))
        plain = model(torch.ones(2)).tolist()
        for part in model:
            assert part(torch.ones(2)).shape == (2,)
        copies = [twin(part) for part in model]
        del model, part
        gc.collect()
        assert [len(each(torch.ones(2))) for each in copies] == [2, 2, 2]
    assert len(copies[0](torch.ones(2))) == len(plain)


def test_what_the_program_had_in_a_slot_is_there_again():
    model, own = Doubled(), lambda x: x
    vars(model)[SLOT] = own
    roots = Roots()
    roots.add(10, lambda _, inner: partial(inner))
    with roots.watching():
        model(torch.ones(1))
        assert vars(model)[SLOT] is not own
    assert vars(model)[SLOT] is own


def test_an_exported_model_is_the_plain_one():
    x = torch.ones(2, 4)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    with on("mixed_precision", dtype="bfloat16"):
        model(x)
        code = torch.export.export(model, (x,), strict=False).graph_module.code
    assert "autocast" not in code
