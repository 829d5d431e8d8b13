"""Checkpoints: whole or not there, the last few, readable without running code."""

import collections
from pathlib import Path
from typing import Any

import pytest
import torch

from hotlap.engine import Checkpointer, Engine, EngineConfig
from hotlap.engine.snapshot import Snapshot


def test_saved_is_what_it_was_when_asked_for(tmp_path: Path) -> None:
    saver = Checkpointer(tmp_path)
    weights = torch.arange(5.0)
    saver.save({"w": weights, "tied": weights, "n": [1, (2.5, "x")], "none": None}, 7)
    weights.add_(100)
    saver.wait()
    state = saver.load()
    assert torch.equal(state["w"], torch.arange(5.0))
    assert state["w"].data_ptr() == state["tied"].data_ptr()
    assert state["n"] == [1, (2.5, "x")]
    assert state["none"] is None
    saver.close()


def test_the_last_few_are_kept(tmp_path: Path) -> None:
    saver = Checkpointer(tmp_path, keep=2)
    for step in (5, 10, 100, 1000):
        saver.save({"step": step}, step)
    saver.wait()
    assert saver.steps() == [100, 1000]
    assert saver.load()["step"] == 1000
    assert saver.load(100)["step"] == 100
    with pytest.raises(ValueError, match="no whole checkpoint of step 5"):
        saver.load(5)
    saver.close()


def test_a_step_counts_when_all_ranks_are_there(tmp_path: Path) -> None:
    ranks = [Checkpointer(tmp_path, keep=1, rank=rank, world=2) for rank in range(2)]
    for rank, saver in enumerate(ranks):
        saver.save({"rank": rank}, 1)
        saver.wait()
    ranks[0].save({"rank": 0}, 2)
    ranks[0].wait()
    assert [saver.steps() for saver in ranks] == [[1], [1]]
    assert [saver.load()["rank"] for saver in ranks] == [0, 1]
    ranks[1].save({"rank": 1}, 2)
    ranks[1].wait()
    assert ranks[0].steps()[-1] == 2
    assert Checkpointer(tmp_path, rank=0, world=1).load() is None  # another number of ranks


def test_leftovers_of_a_killed_writer_are_not_read_and_go(tmp_path: Path) -> None:
    (tmp_path / "step-000000009.rank0of1.partial").write_bytes(b"half")
    (tmp_path / "notes.txt").write_text("mine")
    saver = Checkpointer(tmp_path)
    assert saver.load() is None
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_a_failed_write_is_told_with_the_next_word(tmp_path: Path) -> None:
    saver = Checkpointer(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    saver.save({}, 1)
    with pytest.raises(OSError, match="gone"):
        saver.wait()
    saver.close()


def test_snapshot_keeps_kinds_of_mappings() -> None:
    state: dict[str, Any] = {
        "counter": collections.Counter({3: 2}),
        "ordered": collections.OrderedDict(b=torch.ones(2), a=1),
    }
    found = Snapshot(state).ready()
    assert isinstance(found["counter"], collections.Counter)
    assert list(found["ordered"]) == ["b", "a"]
    assert found["ordered"]["b"] is not state["ordered"]["b"]


@pytest.mark.parametrize("keep", [0, -1])
def test_keep_none_is_refused(tmp_path: Path, keep: int) -> None:
    with pytest.raises(ValueError, match="at least one"):
        Checkpointer(tmp_path, keep=keep)


@pytest.mark.parametrize("size", [0, 100, -1])
def test_a_checkpoint_cut_short_is_named_and_the_one_before_it_taken(
    size: int, tmp_path: Path
) -> None:
    saver = Checkpointer(tmp_path)
    for step in (5, 10):
        saver.save({"step": step, "w": torch.ones(1000)}, step)
    saver.wait()
    newest = tmp_path / "step-000000010.rank0of1.pt"
    content = newest.read_bytes()
    newest.write_bytes(content[:size])
    with pytest.warns(UserWarning, match=r"step-000000010\.rank0of1\.pt is cut short"):
        assert saver.load()["step"] == 5
    (tmp_path / "step-000000005.rank0of1.pt").write_bytes(content[:50])
    with pytest.warns(UserWarning), pytest.raises(ValueError, match=r"damaged.*\[5, 10\]"):
        saver.load()
    saver.close()


def test_an_engine_resumes_from_the_checkpoint_before_a_damaged_one(tmp_path: Path) -> None:
    config = EngineConfig(folder=str(tmp_path), save_every=1)

    def engine() -> Engine:
        model = torch.nn.Linear(2, 1)
        return Engine(model, torch.optim.SGD(model.parameters(), lr=0.1), config=config)

    with engine() as first:
        for x in first.steps([torch.ones(1, 2)] * 3):
            first.step(first.model(x).sum())
    path = sorted(tmp_path.iterdir())[-1]
    path.write_bytes(path.read_bytes()[:-20])
    with engine() as again, pytest.warns(UserWarning, match="cut short"):
        assert again.resume()
        assert again.global_step == 2
