"""What a session says of its techniques."""

import os
import sys
from contextlib import nullcontext
from time import monotonic
from types import SimpleNamespace

import pytest
import torch
from torch.optim import optimizer
from torch.utils.data import DataLoader

from hotlap.core.spec import Mode, Spec
from hotlap.seam.cell import Cell
from hotlap.seam.moves import Context
from hotlap.seam.session import Session
from hotlap.seam.where import is_users_file, place, short, users_lines, users_stack

pytestmark = pytest.mark.clock


def session():
    return Session(Spec("test", Mode.RUN, "", {"no_copy_from_numpy": {}, "cpu_threads": {}}))


def in_a_fork(act):
    pid = os.fork()
    if not pid:
        act()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def test_what_takes_hold_in_a_forked_worker_is_seen_by_its_parent():
    here = session()
    in_a_fork(lambda: here.held("cpu_threads", "train.py:3"))
    assert set(here.standing()["held"]) == {"cpu_threads"}


def test_what_took_hold_nowhere_is_not_held():
    here = session()
    in_a_fork(lambda: here.held("of another recipe"))
    in_a_fork(lambda: here.inert("cpu_threads", "one core"))
    assert here.standing()["held"] == {}


def test_the_places_of_what_took_hold_here_stay():
    here = session()
    here.held("no_copy_from_numpy", "train.py:7")
    in_a_fork(lambda: here.held("no_copy_from_numpy"))
    assert here.standing()["held"] == {"no_copy_from_numpy": ["train.py:7"]}


def test_an_empty_recipe_leaves_one_hook_behind_the_optimizer_and_no_more():
    owners = (
        torch,
        torch.Tensor,
        torch.autograd,
        torch.nn.Module,
        torch.optim.Optimizer,
        DataLoader,
    )
    before = [dict(vars(owner)) for owner in owners]
    hooks = len(optimizer._global_optimizer_post_hooks)
    earlier = len(optimizer._global_optimizer_pre_hooks)
    here = Session(Spec("test", Mode.RUN, "", {}))
    here.enter()
    try:
        assert [dict(vars(owner)) for owner in owners] == before
        assert len(optimizer._global_optimizer_post_hooks) == hooks + 1
        assert len(optimizer._global_optimizer_pre_hooks) == earlier
    finally:
        here.undo.close()
    assert len(optimizer._global_optimizer_post_hooks) == hooks


@pytest.mark.parametrize("mode", [Mode.RUN, Mode.RACE])
def test_a_new_optimizer_has_its_model_found(mode):
    here = Session(Spec("test", mode, "", {"no_grad_eval": {}}))
    here.enter()
    try:
        here.roots._stop()
        here.roots._looks, here.roots._looked = 99, monotonic()
        here.roots.look()
        assert not here.roots.looking
        torch.optim.SGD(torch.nn.Linear(1, 1).parameters())
        assert here.roots.looking
    finally:
        here.undo.close()


def test_techniques_act_before_a_cell_and_its_part_begins_with_it(monkeypatch):
    """A model that was called in front of the cell is then seen as well."""
    cell, told, kinds = Cell(), [], []
    model, x = torch.nn.Linear(64, 64), torch.randn(4, 64)
    exact = model(x)

    def rounded():
        return not torch.equal(model(x), exact)

    monkeypatch.setattr("hotlap.seam.cell.CELL", cell)
    cell.waits()
    here = Session(Spec("test", Mode.PROFILE, "", {"mixed_precision": {"dtype": "bfloat16"}}))
    monkeypatch.setattr(here.wire, "send", lambda kind, **_: kinds.append(kind))

    def part(session):
        session.roots.add(0, lambda _, inner: lambda *args: (told.append(1), inner(*args))[1])
        return nullcontext()

    monkeypatch.setattr("hotlap.seam.modes.part", part)
    here.enter()
    try:
        assert rounded()
        assert not told
        cell.begins()
        assert rounded()
        assert told == [1]
        assert kinds == ["before", "cell"]
    finally:
        here.undo.close()
    assert not rounded()


def test_a_technique_that_holds_at_every_call_tells_it_once_a_place():
    told = []
    context = Context("test", {}, SimpleNamespace(held=lambda _, note="": told.append(note)))
    for _ in range(3):
        context.held("Net")
        context.held_in(sys._getframe())
    context.held_in(sys._getframe())
    net, first, second = told
    assert net == "Net"
    assert first != second
    assert {note.rpartition(":")[0] for note in (first, second)} == {short(__file__)}


def of_every_tenth(numbers, found):
    for number in numbers:
        if number % 10 == 0:
            found.append(number)


def test_the_end_of_a_loop_that_has_no_line_counts_for_the_line_before_it():
    code = of_every_tenth.__code__
    first = code.co_firstlineno
    none = [begin for begin, _, line in code.co_lines() if line is None]
    assert none, "this Python gives each instruction a line: the case is gone"
    for at in none:
        frame = SimpleNamespace(f_lineno=None, f_code=code, f_lasti=at, f_back=None)
        ((_, line, _),) = users_stack(frame)
        assert first <= line <= first + 3
        assert users_lines(frame, 4) == ((code, line),)
        assert place(frame).endswith(f":{line}")


def test_code_that_the_compiler_generates_is_not_the_users(monkeypatch, tmp_path):
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    assert is_users_file("/home/me/train.py")
    assert not is_users_file("/home/me/.hotlap/notebooks/hotlap_notebook_shim.py")
    assert not is_users_file("/tmp/torchinductor_me/qz/cqztsiflm.py")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    assert not is_users_file(str(tmp_path / "cache" / "qz" / "cqztsiflm.py"))
    assert is_users_file(str(tmp_path / "cached.py"))
