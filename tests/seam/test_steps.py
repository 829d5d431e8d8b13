"""Cycles of optimizers, and root modules found without disturbing what compiles them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from hotlap.seam.roots import SLOT, Roots
from hotlap.seam.steps import Cycle, bare_step_hooks, step_hooks


@pytest.mark.parametrize(
    ("turns", "cycles", "period"),
    [
        ("aaaaaaaa", 8, 1),
        ("abababab", 5, 2),
        ("aaab" * 6, 12, 4),
        ("abb" * 6, 8, 3),
        ("abcabcabcabc", 7, 3),
    ],
)
def test_a_cycle_is_the_shortest_period_in_which_all_take_turns(
    turns: str, cycles: int, period: int
) -> None:
    optimizers = {letter: object() for letter in set(turns)}
    cycle = Cycle()
    ends = [cycle.turn(optimizers[letter]) for letter in turns]
    assert cycle.period == period
    late = ends[len(ends) // 2 :]
    assert sum(late) == pytest.approx(len(late) / period, abs=1)
    assert sum(ends) <= cycles + 2


@pytest.mark.parametrize(
    ("order", "moves"),
    [
        ("aaaaaaaabbbb", [10]),  # a check that it learns one batch, then the training
        ("aaaabbbbcccc", [6, 10]),
        ("aaaaabaaaaab", []),  # a critic that steps five times
        ("abbabbabbabb", []),
        ("aaaa", []),
        ("a" * 70 + "bbbb", []),  # so late it is another phase, not a check before
    ],
)
def test_a_loop_is_left_where_another_optimizer_alone_goes_on(order: str, moves: list[int]) -> None:
    cycle, optimizers, found = Cycle(), {name: object() for name in "abc"}, []
    for step, name in enumerate(order):
        cycle.turn(optimizers[name])
        if cycle.moved_on:
            found.append(step)
    assert found == moves


def test_a_step_that_a_scaler_skips_counts() -> None:
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    seen: list[Any] = []
    with step_hooks(None, seen.append):
        for value in (1.0, float("inf"), 1.0):
            optimizer.zero_grad()
            scaler.scale((weight * value).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
    assert seen == [optimizer] * 3


def test_a_hook_may_put_another_in_its_place() -> None:
    weight = nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    seen: list[str] = []

    def first(*_: Any) -> None:
        seen.append("first")
        use(lambda *_: seen.append("second"))

    with bare_step_hooks(None, first) as use:
        for _ in range(3):
            optimizer.step()
    use(first)
    optimizer.step()
    assert seen == ["first", "second", "second"]


def evaluating(order: list[str]) -> tuple[torch.optim.LBFGS, Callable[[], torch.Tensor]]:
    """An optimizer that evaluates its closure four times a call, and the closure."""
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.LBFGS([weight], lr=1e-3, max_iter=4, tolerance_change=0)

    def closure() -> torch.Tensor:
        order.append("closure")
        optimizer.zero_grad()
        loss = weight.square().sum()
        loss.backward()
        return loss

    return optimizer, closure


@pytest.mark.parametrize("by_name", [False, True], ids=["an argument", "a keyword"])
def test_each_evaluation_of_a_closure_is_a_step(by_name: bool) -> None:
    order: list[str] = []
    optimizer, closure = evaluating(order)
    with step_hooks(lambda _: order.append("begin"), lambda _: order.append("end")):
        optimizer.step(closure=closure) if by_name else optimizer.step(closure)
    assert order == ["begin", "closure", "end"] * 4


def test_a_whole_call_of_an_optimizer_is_a_step_where_it_is_asked_for() -> None:
    seen: list[object] = []
    optimizer, closure = evaluating([])
    with bare_step_hooks(None, lambda one, *_: seen.append(one), evaluations=False):
        optimizer.step(closure)
    assert seen == [optimizer]


class Counted:
    def __init__(self) -> None:
        self.calls = 0

    def maker(self, _: nn.Module, inner: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            return inner(*args, **kwargs)

        return call


def test_only_the_outermost_call_is_wrapped_and_undone() -> None:
    model, counted, roots = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), Counted(), Roots()
    original = nn.Module.__call__
    roots.add(0, counted.maker)
    with roots.watching():
        for _ in range(3):
            model(torch.ones(1, 2))
            roots.step()
        assert counted.calls == 3
        assert nn.Module.__call__ is original, "it stops looking once no new root comes"
        model(torch.ones(1, 2))
        assert counted.calls == 4
        roots.look()
        model[0](torch.ones(1, 2))
        assert counted.calls == 5
    assert nn.Module.__call__ is original
    assert SLOT not in model.__dict__


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """A clock for the looks that the test sets."""
    clock = [100.0]
    monkeypatch.setattr("hotlap.seam.roots.monotonic", lambda: clock[0])
    return clock


def looks_after(roots: Roots, now: list[float], seconds: float, model: nn.Module) -> bool:
    """Whether an epoch that begins so much later is looked at; a few steps of it."""
    now[0] += seconds
    roots.look()
    looking = roots.looking
    for _ in range(4):
        model(torch.ones(1, 2))
        roots.step()
    assert not roots.looking
    return looking


def test_later_looks_are_ever_further_apart_until_something_new_comes(now: list[float]) -> None:
    model, later, roots = nn.Linear(2, 2), nn.Linear(2, 2), Roots()
    roots.add(0, Counted().maker)
    with roots.watching():
        assert all(looks_after(roots, now, 0.01, model) for _ in range(5)), "the first ones are not"
        for seconds in (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 32.0):
            assert not looks_after(roots, now, 0.99 * seconds, model)
            assert looks_after(roots, now, 0.02 * seconds, model)
        roots.expect()
        assert looks_after(roots, now, 0.01, model), "at once with a new optimizer"
        assert looks_after(roots, now, 0.5, later), "and from then on as at first"
        assert looks_after(roots, now, 0.51, later), "so too after a new root"
        assert not looks_after(roots, now, 0.51, later)


def test_what_nobody_wants_to_wrap_is_called_as_ever_and_known() -> None:
    criterion, roots, original = nn.MSELoss(), Roots(), nn.Module.__call__
    roots.add(0, lambda *_: None)
    with roots.watching():
        for _ in range(4):
            criterion(torch.ones(2), torch.ones(2))
            roots.step()
        assert SLOT not in criterion.__dict__
        assert roots.found == [criterion]
        assert nn.Module.__call__ is original
    assert SLOT not in criterion.__dict__


def test_later_looks_end_with_calls_of_known_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hotlap.seam.roots.APART", 0.0)
    model, later, counted, roots = nn.Linear(2, 2), nn.Linear(2, 2), Counted(), Roots()
    original, x = nn.Module.__call__, torch.ones(1, 2)
    roots.add(0, counted.maker)
    with roots.watching():
        for _ in range(6):
            for _ in range(4):
                model(x)
                roots.step()
            roots.look()
        model(x)
        assert nn.Module.__call__ is not original
        model(x)
        assert nn.Module.__call__ is original
        roots.look()
        before = counted.calls
        later(x)
        assert counted.calls == before + 1
        assert SLOT in later.__dict__


def test_a_compiled_function_that_calls_the_model_traces_nothing_of_ours() -> None:
    model, counted, roots = nn.Linear(2, 2), Counted(), Roots()
    roots.add(0, counted.maker)

    @torch.compile(backend="eager", fullgraph=True)
    def loss(x: torch.Tensor) -> torch.Tensor:
        return model(x).sum()

    x = torch.ones(3, 2)
    with roots.watching():
        assert torch.equal(loss(x), model(x).sum())
        roots.look()
        assert torch.equal(loss(x), model(x).sum())


def test_gradients_that_a_compiler_traces_are_no_steps_of_a_program_without_optimizer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hotlap.seam.steps.optimizer_exists", lambda: False)
    model, ends = nn.Linear(2, 2), list[Any]()
    compiled = torch.compile(model, backend="aot_eager")
    with step_hooks(None, ends.append):
        for _ in range(4):
            compiled(torch.ones(3, 2)).sum().backward()
    assert len(ends) == 3  # the first is let pass
