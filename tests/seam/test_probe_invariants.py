"""Work that has the same result at every step, as two diagnostic steps see it."""

import inspect
import threading

import numpy
import pytest
import torch
from probing_help import line_of, probed
from torch import nn
from torch._higher_order_ops.cond import cond_op
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from hotlap.model.flops import FlopCount
from hotlap.model.operators import Count
from hotlap.seam.probe import invariants
from hotlap.seam.probe.invariants import _Signatures
from hotlap.seam.where import short

# A line counts by its share of a step's time, which a stall of the machine changes.
pytestmark = pytest.mark.usefixtures("nothing_compiled")
NODES = 300
ADJACENCY = (torch.rand(NODES, NODES) < 0.1).float()
FEATURES = torch.randn(NODES, 8)
CLIPS = [torch.rand(NODES, NODES) for _ in range(16)]
NUMBERS = numpy.random.default_rng(0).random((NODES, NODES), dtype=numpy.float32)


class Net(nn.Module):
    """What is constant, if anything, is made by `mixing` in forward; `step` counts from 0."""

    def __init__(self, mixing):
        super().__init__()
        self.linear, self.gate = nn.Linear(8, 4), nn.Linear(NODES, NODES)
        self.register_buffer("table", torch.rand(NODES, NODES))
        self.shared = torch.from_numpy(NUMBERS.copy())
        self.step = 0
        self.mixing = mixing

    def forward(self, x):
        self.step += 1
        mixed = self.mixing(self, ADJACENCY)
        return mixed @ self.linear(x)


def profile(mixing, steps=9):
    """The profile of a training whose model calls `mixing`."""
    model = Net(mixing)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with probed(steps=2) as session:
        for _ in range(steps):
            optimizer.zero_grad()
            model(FEATURES).square().mean().backward()
            optimizer.step()
    assert _get_current_dispatch_mode() is None
    assert "invariants" not in session.profile["notes"]
    return session.profile


def found(mixing, **options):
    """Its invariants, as `file:line`, and whether other work is on the line."""
    rows = profile(mixing, **options)["invariants"]
    return [(f"{short(one['path'])}:{one['line']}", one["in_part"]) for one in rows]


CALL = line_of(Net.forward, "mixed = ")
WHOLE = [(CALL, False)]
"""The line that calls `mixing`, as a whole."""


def power(matrix):
    """Enough work for its line to count."""
    return matrix @ matrix @ matrix


def normalised(_, adjacency):
    looped = adjacency + torch.eye(NODES)
    degree = looped.sum(1).rsqrt()
    return power(degree[:, None] * looped * degree)


def causal(*_):
    return torch.ones(NODES, NODES).tril() @ torch.ones(NODES, NODES).triu()


def detached_in_some_steps(model, _):
    """As `torch.ones` itself does where a thread that samples stacks refers to its result."""
    ones = torch.ones(NODES, NODES)
    return (ones.detach() if model.step % 2 else ones).tril() @ ones.triu()


def written_into(*_):
    table = torch.zeros(NODES, NODES)
    for row in range(0, NODES, 10):
        table[row, : row + 1] = 1.0
    table.mul_(0.5)
    return power(table)


def positions(*_):
    at = torch.arange(NODES)
    return power(torch.exp(-(at[:, None] - at).abs() / 10))


def of_a_buffer(model, _):
    return power(model.table.softmax(1))


def frozen(model, _):
    with torch.no_grad():
        return power(model.shared) @ model.table.T


def read_out(_, adjacency):
    return power(adjacency / adjacency.sum(1).max().item())


@pytest.mark.parametrize(
    "mixing",
    [
        normalised, causal, detached_in_some_steps, written_into, positions, of_a_buffer, frozen,
        read_out,
    ],
)  # fmt: skip
def test_the_line_is_named_that_computes_the_same_at_every_step(mixing):
    assert found(mixing) == WHOLE


def of_parameters(model, _):
    return power(model.gate.weight)


def of_parameters_without_gradients(model, _):
    return power(model.gate.weight.detach())


def random(*_):
    return power(torch.rand(NODES, NODES))


def random_in_place(*_):
    return power(torch.empty(NODES, NODES).normal_())


def dropped(model, adjacency):
    return power(functional.dropout(adjacency, 0.1, training=model.training))


def of_a_buffer_that_is_updated(model, _):
    made = power(model.table)
    model.table.mul_(0.99)
    return made


def of_a_buffer_updated_past_its_version(model, _):
    made = power(model.table)
    model.table.data.mul_(0.99)
    return made


def of_an_array_that_numpy_changes(model, _):
    made = power(model.shared)
    model.shared.numpy()[:] *= 0.99
    return made


def of_a_number(model, adjacency):
    return power(adjacency * (1.0 / model.step))


def of_rows_that_vary(model, adjacency):
    return power(adjacency.roll(model.step, 0))


def of_what_changes_later(model, adjacency):
    return power(adjacency * (1.0 + (model.step > 5)))


def differentiated_by_torch_func(model, adjacency):
    return torch.func.grad(lambda points: power(power(adjacency).sin() * points).sum())(adjacency)


def filled_by_numpy(model, _):
    table = torch.zeros(NODES, NODES)
    numpy.multiply(NUMBERS, model.step, out=table.numpy())
    return power(table)


def filled_by_another_thread(model, _):
    table = torch.zeros(NODES, NODES)
    thread = threading.Thread(target=lambda: table.copy_(model.table * model.step))
    thread.start()
    thread.join()
    return power(table)


def averages_by_data(model, _):
    for _ in range(50):
        model.table.data = 0.99 * model.table.data
    return model.table


def of_a_tensor_given_other_data(model, _):
    model.table.data = 0.99 * model.table.data
    return power(model.table)


def of_which_an_entry_changes(model, _):
    model.shared.numpy()[model.step, model.step] += 1
    return power(model.shared / model.shared.sum(1))


def of_other_shifts(model, adjacency):
    return power(adjacency.roll(-1 - model.step % 2, 0))


def of_what_another_line_read_before(model, _):
    clips = CLIPS[model.step], CLIPS[model.step + 1]
    now = power(clips[0])
    return now + power(clips[1])


def memory_for_what_varies(model, _):
    table = torch.zeros(NODES, NODES)
    table.view(-1)[: model.step] += model.step
    table.add_(model.table.data.add_(1))
    return table


@pytest.mark.parametrize(
    "mixing",
    [
        of_parameters,
        of_parameters_without_gradients,
        random,
        random_in_place,
        dropped,
        of_a_buffer_that_is_updated,
        of_a_buffer_updated_past_its_version,
        of_an_array_that_numpy_changes,
        of_a_number,
        of_rows_that_vary,
        of_what_changes_later,
        differentiated_by_torch_func,
        filled_by_numpy,
        filled_by_another_thread,
        averages_by_data,
        of_a_tensor_given_other_data,
        of_which_an_entry_changes,
        of_other_shifts,
        of_what_another_line_read_before,
        memory_for_what_varies,
    ],
)
def test_what_may_differ_is_not_called_the_same(mixing):
    assert found(mixing) == []


def test_a_new_tensor_with_the_same_values_is_not_known_to_be_the_same():
    def mixed(*_):
        return power(torch.from_numpy(NUMBERS.copy()))

    assert found(mixed) == []


def test_an_operator_that_took_long_in_one_step_hides_no_line():
    def mixed(model, adjacency):
        made = power(adjacency)
        torch.rand(6000 if model.step == 4 else 1, 6000)
        return made

    assert found(mixed) == [(line_of(mixed, "made ="), False)]


def test_where_nearly_all_work_is_the_same_its_own_line_is_named_and_not_the_call_of_the_model():
    def mixed(model, adjacency):
        return torch.linalg.inv(adjacency + torch.eye(NODES)) + model.gate.bias

    assert found(mixed) == [(line_of(mixed, "return"), True)]


def test_of_a_line_with_other_work_it_is_said_that_a_part_is_the_same():
    def mixed(model, adjacency):
        return torch.linalg.inv(adjacency + torch.eye(NODES)) @ model.gate(adjacency)

    assert found(mixed) == [(line_of(mixed, "return"), True)]


def test_lines_in_a_row_are_one_place():
    def mixed(model, adjacency):
        looped = adjacency + torch.eye(NODES)
        degree = looped.sum(1).rsqrt()

        table = power(degree[:, None] * looped * degree)
        return table @ power(model.gate.weight)

    (one,) = profile(mixed)["invariants"]
    begin = inspect.getsourcelines(mixed)[1]
    assert (one["since"], one["end_line"]) == (begin + 1, begin + 4)
    assert one["since"] <= one["line"] <= one["end_line"]


def test_work_of_a_backward_pass_is_none_of_the_forward_pass():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad + power(ADJACENCY)[:1, :1]

    assert found(lambda model, _: Twice.apply(model.gate.weight)) == []


def test_what_was_found_is_confirmed_by_a_step_at_the_end_unless_the_program_ends_before():
    for steps, confirmed in ((9, True), (7, False)):
        (one,) = profile(normalised, steps=steps)["invariants"]
        assert one["confirmed"] is confirmed


def test_what_later_steps_do_not_run_is_not_confirmed_by_them():
    def mixed(model, adjacency):
        return power(adjacency) if model.step < 6 else model.table

    (one,) = profile(mixed)["invariants"]
    assert not one["confirmed"]


def test_the_steps_that_confirm_are_none_of_the_timed_ones():
    found = profile(normalised, steps=12)
    assert found["invariants"][0]["confirmed"]
    assert (found["steps"], found["samples"]) == (2, NODES)


@pytest.mark.parametrize("mode", [_Signatures, FlopCount, lambda: Count(lambda: None)])
def test_an_operator_that_takes_functions_runs_as_without_a_probe(mode):
    followed = mode()
    followed.off = False
    small = ADJACENCY[:2, :2]
    with followed:
        found = cond_op(small.sum() > -1, torch.sin, torch.cos, (small,))
    assert torch.equal(found, small.sin())


def test_an_evaluation_between_the_steps_changes_nothing():
    def mixed(model, adjacency):
        made = power(adjacency)
        if model.training and torch.is_grad_enabled():
            model.eval()
            with torch.no_grad():
                model(FEATURES)
            model.train()
        return made

    assert found(mixed, steps=16)[0][0] == line_of(mixed, "made =")


class Counting(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.number = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.number += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("every", [1, 3])
def test_a_mode_of_the_programs_own_counts_what_it_counts_without_a_probe(every):
    def counted():
        model, numbers, at_end = Net(normalised), [], []
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(4):
            with Counting() as mode:
                for _ in range(every):
                    model(FEATURES).sum().backward()
                    optimizer.step()
                    optimizer.zero_grad()
            numbers.append(mode.number)
            at_end.append(_get_current_dispatch_mode())
        return numbers, at_end

    plain = counted()
    with probed(steps=2) as session:
        assert counted() == plain
    assert "of its own" in session.profile["notes"]["invariants"]


def test_a_mode_that_is_entered_later_and_left_later_is_not_left_for_ours():
    model = Net(normalised)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    mode = Counting()
    with probed(steps=2) as session:
        for number in range(14):
            if number == 2:
                mode.__enter__()
            model(FEATURES).sum().backward()
            optimizer.step()
            if number == 3:
                assert _get_current_dispatch_mode() is mode
                mode.__exit__(None, None, None)
    assert _get_current_dispatch_mode() is None
    assert "invariants" not in session.profile["notes"]


def test_a_program_of_two_steps_leaves_no_mode_behind():
    with probed(steps=2) as session:
        model = Net(normalised)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(2):
            model(FEATURES).sum().backward()
            optimizer.step()
    assert _get_current_dispatch_mode() is None
    assert session.profile["invariants"] == []
    assert session.profile["notes"]["invariants"]


def test_the_bytes_of_a_storage_are_not_read_one_by_one(monkeypatch):
    """What a loader's workers send is made by `set_` with a storage, which is iterable."""
    read = []
    for name in ("__getitem__", "__iter__", "__repr__"):
        monkeypatch.setattr(torch.storage._StorageBase, name, lambda *_: read.append(True))
    storage = torch.ones(3).untyped_storage()
    followed = _Signatures()
    followed.off = False
    with followed:
        made = torch.empty(0).set_(storage, 0, (3,))
    assert made.tolist() == [1.0] * 3
    assert read == []
    runs, _ = followed.restart()
    assert [run.signature is None for run in runs] == [False, True]


FOLLOWED = 600
"""For these tests: of some thousands a profile of a loaded machine takes a minute."""


@pytest.fixture
def few_followed(monkeypatch):
    monkeypatch.setattr(invariants, "MOST", FOLLOWED)


def many_small(_, adjacency):
    total = torch.zeros(NODES)
    for row in range(FOLLOWED // 2):
        total = total + adjacency[row % NODES] * 2.0
    return adjacency + total


def many_small_and_then_others(net, adjacency):
    return many_small(net, adjacency) + net.table.mul(torch.rand(())) + power(adjacency)


def varies_late(net, adjacency):
    total = torch.zeros(NODES)
    for row in range(FOLLOWED):
        total = total + adjacency[row % NODES] * float(net.step)
    return adjacency + total


@pytest.mark.usefixtures("few_followed")
def test_a_step_of_more_operators_than_are_followed():
    """Lines beyond are as the followed ones of the same line were; a line of its own is unknown."""
    total = line_of(many_small, "total = total")
    assert (total, False) in found(many_small) or (CALL, False) in found(many_small)
    places = dict(found(many_small_and_then_others))
    assert CALL not in places
    assert line_of(many_small_and_then_others, "return many") not in places
    assert total in places
    seen = profile(many_small)["operators_on"][__file__]
    assert seen[int(total.rpartition(":")[2])][0] == 3 * (FOLLOWED // 2)


@pytest.mark.usefixtures("few_followed")
def test_a_line_that_varies_among_the_followed_operators_is_not_invariant():
    assert found(varies_late) == []
