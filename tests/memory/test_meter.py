"""Counting live tensors, against sums done by hand."""

import pytest
import torch
from torch import nn

from hotlap.memory import Fragmentation, Meter, saved_by_module

KIB = 1024


def test_bytes_come_and_go() -> None:
    with Meter() as meter:
        a = torch.zeros(256)
        b = a.view(16, 16)  # shares a's memory
        assert meter._now == KIB
        c = a + 1
        assert meter.peak == 2 * KIB
        del a
        assert meter._now == 2 * KIB  # b keeps it
        del b, c
        assert meter._now == 0
        torch.zeros(1000)
    assert meter.peak == 4000


def test_phases_and_owners() -> None:
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.ReLU(), nn.Linear(8, 8, bias=False))
    optimizer = torch.optim.Adam(model.parameters())
    weights = 2 * 8 * 8 * 4
    with Meter(model, optimizer) as meter:
        for _ in range(2):
            with meter.phase("forward"):
                loss = model(torch.zeros(100, 8)).sum()
            with meter.phase("backward"):
                loss.backward()
            with meter.phase("step"):
                optimizer.step()
            optimizer.zero_grad()
    forward, backward, step = (meter.peaks[name] for name in ("forward", "backward", "step"))
    assert forward["parameters"] == backward["parameters"] == weights
    assert forward["gradients"] == 0
    assert forward["activations"] >= 3 * 100 * 8 * 4
    assert step["gradients"] == weights
    assert step["optimizer state"] >= 2 * weights
    assert meter.peak >= sum(backward.values())


def test_the_largest_and_their_lines() -> None:
    with Meter() as meter:
        small = torch.ones(10)
        large = torch.ones(1000)  # this line
    first, second = meter.largest(2)
    assert first.bytes == large.nbytes
    assert first.shape == (1000,)
    with open(__file__) as file:
        lines = file.read().splitlines()
    path, _, number = first.where.rpartition(":")
    assert path == __file__
    assert lines[int(number) - 1].endswith("# this line")
    assert second.bytes == small.nbytes


def test_what_was_alive_at_the_peak() -> None:
    with Meter(model := nn.Linear(4, 4)) as meter:
        a = torch.zeros(500)
        b = torch.zeros(300)  # the peak
        del b
        c = torch.zeros(100)
        del a
        d = torch.zeros(50)
    assert [live.bytes for live in meter.largest(2, at_peak=True)] == [2000, 1200]
    assert [live.bytes for live in meter.largest(2)] == [c.nbytes, d.nbytes]
    assert meter.largest(9, at_peak=True)[2].where == "parameters"
    assert meter.peak == 3200 + sum(p.nbytes for p in model.parameters())


def test_state_in_lists_and_parameters_of_the_optimizer_alone_count() -> None:
    p = torch.randn(100, requires_grad=True)
    optimizer = torch.optim.SGD([p], lr=0.1)
    with Meter(None, optimizer) as meter, meter.phase("step"):
        optimizer.state[p]["history"] = [torch.zeros(100), torch.zeros(100)]  # as LBFGS does
        torch.zeros(10_000)
    assert meter.peaks["step"]["parameters"] == p.nbytes
    assert meter.peaks["step"]["optimizer state"] == 2 * p.nbytes


def test_a_profile_counts_with_the_same_code() -> None:
    from hotlap.memory.owners import owners
    from hotlap.seam.probe.diagnostics import owners as probed

    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    with Meter(model, optimizer) as meter, meter.phase("now"):
        pass
    weights = sum(p.nbytes for p in model.parameters())
    found = owners([model], [optimizer])[0]
    assert found == probed([model], [optimizer])[0]
    assert found == {
        "parameters": weights, "buffers": 0, "gradients": weights, "optimizer state": weights,
    }  # fmt: skip
    assert meter.peaks["now"] == {**found, "optimizer temporaries": 0, "activations": 0}


@pytest.mark.parametrize(
    ("reserved", "expandable", "advice"),
    [(110, False, ""), (200, False, "expandable_segments:True"), (200, True, "pad inputs")],
)
def test_what_to_do_about_fragments(reserved: int, expandable: bool, advice: str) -> None:
    found = Fragmentation(reserved, 80, reserved, 100, expandable)
    assert found.lost == pytest.approx(1 - 100 / reserved)
    assert advice in found.advice()
    assert bool(found.advice()) == bool(advice)


def test_what_is_saved_by_which_module() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
    x = torch.randn(50, 4)
    with saved_by_module(model) as table:
        model(x).square().mean()
    assert table["0"].bytes == x.nbytes  # a linear layer keeps its input
    assert table["1"].bytes == 50 * 16 * 4  # tanh its output, which is the next one's input
    assert table["2"].bytes == 0 if "2" in table else True
    assert table["outside"].bytes == 50 * 2 * 4
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize("foreach", [False, True])
def test_what_a_step_allocates_is_the_optimizers(foreach: bool) -> None:
    model = nn.Linear(64, 64)
    optimizer = torch.optim.Adam(model.parameters(), foreach=foreach)
    with Meter(model, optimizer) as meter:
        for _ in range(2):
            model(torch.randn(4, 64)).sum().backward()
            with meter.phase("step"):
                optimizer.step()
        with meter.phase("after"):
            kept = torch.zeros(1000)
    assert meter.peaks["step"]["optimizer temporaries"] >= model.weight.nbytes
    assert meter.peaks["step"]["activations"] == 0
    assert meter.peaks["after"]["activations"] == kept.nbytes
    assert meter.peaks["after"]["optimizer temporaries"] == 0


def test_a_closures_forward_pass_is_no_temporary_of_the_optimizer() -> None:
    model = nn.Linear(64, 64)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=1)
    x = torch.randn(400, 64)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        value = torch.tanh(model(x)).square().sum()
        value.backward()
        return value

    with Meter(model, optimizer) as meter, meter.phase("step"):
        meter._add(x, "batch")
        optimizer.step(closure)
    assert meter.peaks["step"]["activations"] >= 2 * x.nbytes


def test_watching_what_is_saved_steps_aside_for_torch_func() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    x = torch.randn(3, 4)
    loss = lambda x: model(x).sum()  # noqa: E731
    with saved_by_module(model) as table:
        model(x)
        by_sample = torch.func.vmap(torch.func.grad(loss))(x)
        torch.func.jacrev(torch.func.grad(loss))(x[0])
        before = table["1"].tensors
        model(x)
    assert by_sample.shape == x.shape
    assert table["1"].tensors > before, "the hooks are back"
    torch.func.grad(loss)(x[0])


def test_watching_may_end_within_a_function_that_torch_func_derives() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    watch, x = saved_by_module(model), torch.randn(3, 4)
    table = watch.__enter__()

    def loss(x: torch.Tensor) -> torch.Tensor:
        watch.__exit__(None, None, None)
        return model(x).sum()

    torch.func.grad(loss)(x)
    torch.func.grad(lambda x: model(x).sum())(x)
    model(x)
    assert not table, "the hooks did not come back"


def test_hooks_of_the_programs_own_are_still_refused_by_torch_func() -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    own = torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)
    with saved_by_module(model), own, pytest.raises(RuntimeError, match="saved tensor hooks"):
        torch.func.grad(lambda x: model(x).sum())(torch.randn(4))
