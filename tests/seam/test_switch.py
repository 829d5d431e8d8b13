"""Techniques switched on and off between two steps of a live training."""

import copy
import shutil
from contextlib import contextmanager
from functools import partial

import pytest
import torch
from applying import Seams, torch_is_left_as_it_was  # noqa: F401
from torch import nn
from torch._dynamo.utils import counters

from hotlap.core.machine import detect
from hotlap.core.registry import technique, techniques
from hotlap.core.technique import Numerics
from hotlap.seam.moves import Context, applied
from hotlap.seam.switch import Switch
from hotlap.tune.candidates import values_of

SWITCHABLE = [name for name, record in techniques().items() if record.switchable]
STEPS = 6


@contextmanager
def switching():
    """A switch in this process, and the seams that say what took hold."""
    seams = Seams()

    def apply(name, values, undo):
        for move in technique(name).moves:
            undo.enter_context(applied(move, Context(name, values, seams, live=True)))

    seams.roots.add(1, lambda _, inner: partial(inner))
    switch = Switch(seams.roots, apply)
    with seams.roots.watching():
        yield switch, seams
        switch.to({})


def values(name):
    found = [v for v in values_of(technique(name), detect()) if v.get("dtype") != "float16"]
    return found[0] if found else {}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.norm, self.out = nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 4)

    def forward(self, x):
        hidden = nn.functional.gelu(self.norm(self.into(x)))
        return self.out(nn.functional.softmax(hidden, dim=-1))


class Training:
    """A few steps of a small model, with an evaluation after each, as scripts write it."""

    def __init__(self, kind=torch.optim.AdamW, **options):
        torch.manual_seed(3)
        self.model = Net()
        self.optimizer = kind(self.model.parameters(), lr=1e-2, **options)
        self.losses, self.dtypes, self.with_grad = [], [], []

    def step(self):
        x, y = torch.randn(12, 8), torch.randint(0, 4, (12,))
        self.optimizer.zero_grad(set_to_none=False)
        hidden = self.model(x)
        self.dtypes.append(self.model.out(torch.randn(2, 16)).dtype)
        loss = nn.functional.cross_entropy(hidden, y)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())
        self.model.eval()
        self.with_grad.append(self.model(x).requires_grad)
        self.model.train()


def trained(at=(), **techniques_on):
    """The training, with the techniques on in the steps `at`."""
    with switching() as (switch, seams):
        training = Training()
        for step in range(STEPS):
            switch.to(techniques_on if step in at else {})
            training.step()
    return training, seams


def test_what_can_be_switched_is_what_a_step_makes_anew():
    assert {"mixed_precision", "fused_optimizer", "cpu_threads", "no_grad_eval"} <= set(SWITCHABLE)
    for name in SWITCHABLE:
        record = technique(name)
        assert not record.whole_epochs and not record.joins, f"{name} has an epoch to fill"
        assert record.numerics is not Numerics.TRAINING


@pytest.mark.parametrize("name", [name for name in SWITCHABLE if name != "inference_mode"])
def test_switched_on_for_some_steps_the_training_is_the_same_within_its_class(name):
    plain, _ = trained()
    switched, seams = trained(at=(1, 2, 4), **{name: values(name)})
    assert not any("failed" in why for why in seams.inerts.values()), seams.inerts
    tolerance = {Numerics.EXACT: 0.0, Numerics.ROUNDING: 1e-5, Numerics.PRECISION: 2e-2}
    worst = tolerance[technique(name).numerics]
    assert switched.losses == pytest.approx(plain.losses, rel=worst, abs=0.0)


def test_what_is_on_shows_in_the_steps_it_is_on_and_in_no_other():
    training, seams = trained(at=(2, 3), no_grad_eval={})
    assert training.with_grad == [True, True, False, False, True, True]
    assert "no_grad_eval" in seams.holds


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD])
def test_a_live_optimizer_is_fused_and_put_back(kind):
    with switching() as (switch, seams):
        training = Training(kind)
        seen = []
        for step in range(STEPS):
            switch.to({"fused_optimizer": {}} if step in (1, 2, 4) else {})
            training.step()
            seen.append(training.optimizer.param_groups[0]["fused"])
    assert seen == [None, True, True, None, True, None]
    assert seams.holds["fused_optimizer"]
    assert training.optimizer.defaults["fused"] is None


@pytest.mark.parametrize(
    "options", [{"foreach": True}, {"fused": False}, {"differentiable": True}], ids=str
)
def test_an_optimizer_that_is_not_to_be_fused_is_left_alone(options):
    with switching() as (switch, seams):
        training = Training(**options)
        switch.to({"fused_optimizer": {}})
        if "differentiable" not in options:
            training.step()
    assert training.optimizer.param_groups[0]["fused"] is options.get("fused")
    assert "fused_optimizer" not in seams.holds


def test_two_may_be_on_at_once_and_change_for_others():
    with switching() as (switch, _):
        training = Training()
        training.step()
        switch.to({"no_grad_eval": {}, "fused_optimizer": {}})
        training.step()
        switch.to({"fused_optimizer": {}})
        training.step()
        assert fused(training.optimizer)
    assert training.with_grad == [True, False, True]
    assert training.optimizer.param_groups[0]["fused"] is None


def test_a_root_that_comes_while_something_is_on_has_it_and_loses_it():
    with switching() as (switch, _):
        training = Training()
        switch.to({"no_grad_eval": {}})
        training.step()
        switch.to({})
        training.step()
    assert training.with_grad == [False, True]


@pytest.mark.skipif(shutil.which("c++") is None, reason="torch.compile has no compiler here")
def test_a_model_is_compiled_once_however_often_it_is_switched():
    torch._dynamo.reset()
    counters.clear()
    graphs = []
    with switching() as (switch, seams):
        training = Training()
        for step in range(STEPS):
            switch.to({"fused_pointwise": {"mode": "default"}} if step % 2 else {})
            training.step()
            graphs.append(counters["stats"]["unique_graphs"])
    assert "Net" in seams.holds["fused_pointwise"]
    assert graphs[0] == 0, "not before it is on"
    assert graphs[1] > 0
    assert graphs[-1] == graphs[1]


def fused(optimizer):
    """Whether it steps by the fused kernel, by all that says so."""
    said = [group["fused"] for group in (*optimizer.param_groups, optimizer.defaults)]
    said += [vars(optimizer).get("_step_supports_amp_scaling", said[0])]  # a copy has it not
    assert len({bool(each) for each in said}) == 1, said
    return bool(said[0])


def anew(training):
    training.optimizer = torch.optim.AdamW(training.model.parameters(), lr=1e-2)


def by_its_defaults(training):
    given = {k: v for k, v in training.optimizer.defaults.items() if k != "decoupled_weight_decay"}
    training.optimizer = torch.optim.AdamW(training.model.parameters(), **given)


def rolled_back(training):
    saved = copy.deepcopy(training.optimizer.state_dict())
    training.optimizer.load_state_dict(saved)


def copied(training):
    training.model, training.optimizer = copy.deepcopy((training.model, training.optimizer))


def with_a_group_more(training):
    more = nn.Linear(16, 4)
    training.optimizer.add_param_group({"params": list(more.parameters())})


CHANGES = [anew, by_its_defaults, rolled_back, copied, with_a_group_more]
FUSED = {"fused_optimizer": {}}


@pytest.mark.parametrize("change", CHANGES)
def test_an_optimizer_made_while_it_is_on_is_plain_while_it_is_off(change):
    with switching() as (switch, _):
        training = Training()
        training.step()
        switch.to(FUSED)
        training.step()
        change(training)
        training.step()
        assert fused(training.optimizer)
        switch.to({})
        training.step()
        assert not fused(training.optimizer)


def test_what_was_saved_while_it_was_on_is_plain_when_loaded_while_it_is_off():
    with switching() as (switch, _):
        training = Training()
        plain = copy.deepcopy(training.optimizer.state_dict())
        switch.to(FUSED)
        training.step()
        saved = copy.deepcopy(training.optimizer.state_dict())
        training.optimizer.load_state_dict(plain)
        training.step()
        assert fused(training.optimizer)
        switch.to({})
        training.optimizer.load_state_dict(saved)
        training.step()
        assert not fused(training.optimizer)


def test_an_optimizer_that_the_program_fuses_stays_so():
    with switching() as (switch, seams):
        training = Training(fused=True)
        for on in ({}, FUSED, {}):
            switch.to(on)
            training.step()
            rolled_back(training)
            training.step()
            assert training.optimizer.param_groups[0]["fused"] is True
    assert "fused_optimizer" not in seams.holds


def test_threads_that_the_program_chooses_while_it_is_on_stay():
    before = torch.get_num_threads()
    try:
        with switching() as (switch, _):
            torch.set_num_threads(2)
            for chosen in (3, None):
                switch.to({"cpu_threads": {"threads": 1}})
                assert torch.get_num_threads() == 1
                if chosen:
                    torch.set_num_threads(chosen)
                switch.to({})
                assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
