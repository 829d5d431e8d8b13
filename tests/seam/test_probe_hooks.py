"""Hooks that pile up on a module."""

from probing_help import line_of, probed
from torch import nn, optim, randn

from hotlap.seam.where import short

SEEN = {}


def remember(module, given, result):
    SEEN["last"] = result


def piled_up(step):
    """The piled hooks of a training that does `step` with its first layer each time."""
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = optim.SGD(model.parameters(), lr=0.01)
    with probed(steps=4) as session:
        for _ in range(20):
            step(model[0])
            model(randn(4, 8)).square().mean().backward()
            optimizer.step()
    return session.profile["hooks"]


def test_a_hook_that_each_step_registers_is_named():
    (one,) = piled_up(lambda layer: layer.register_forward_hook(remember))
    assert f"{short(one['path'])}:{one['line']}" == line_of(remember, "def remember")
    assert f"{short(one['path'])}:{one['end_line']}" == line_of(remember, "SEEN[")
    assert one["times"] >= 8


def test_closures_of_one_function_are_the_same_hook():
    def registers(layer):
        found = []
        layer.register_forward_pre_hook(lambda _, given: found.append(given))

    assert len(piled_up(registers)) == 1


def test_hooks_that_are_removed_or_of_several_modules_are_not_named():
    handles = []

    def again(layer):
        for handle in handles:
            handle.remove()
        handles[:] = [layer.register_forward_hook(remember)]

    assert not piled_up(again)
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(12)))
    for layer in model:
        layer.register_forward_hook(remember)
    assert not piled_up(lambda _: model(randn(4, 8)))
