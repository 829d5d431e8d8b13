"""Checkpoints of shards: from any layout into any other, whole or not there, copied when taken."""

import copy
import os
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from hotlap.parallel.sharded_checkpoint import ShardedCheckpointer
from parallel.farm import run as ranks

STEPS = 3


def made(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 10), nn.Tanh(), nn.BatchNorm1d(10), nn.Linear(10, 3))


def laid(model: nn.Module, layout: str) -> nn.Module:
    if layout == "fsdp":
        fully_shard(model[0])
        return fully_shard(model)
    if layout == "hsdp":
        return fully_shard(model, mesh=init_device_mesh("cpu", (2, 2), mesh_dim_names=("r", "s")))
    return DistributedDataParallel(model) if layout == "ddp" else model


def trained(layout: str, seed: int = 0) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Some steps on data that are alike on all ranks, so that every layout gives the same."""
    model = laid(made(seed), layout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    torch.manual_seed(seed + 1)
    for x in torch.randn(STEPS, 8, 6):
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


def whole(value: Any) -> Any:
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def values(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Weights, buffers and moments by name, on one device."""
    names = [name.removeprefix("module.") for name, _ in model.named_parameters()]
    found = {n.removeprefix("module."): whole(v) for n, v in model.state_dict().items()}
    for name, parameter in zip(names, model.parameters(), strict=True):
        for key, value in optimizer.state[parameter].items():
            found[f"{name}/{key}"] = whole(value)
    found["lr"] = optimizer.param_groups[0]["lr"]
    return {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in found.items()}


def same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert torch.equal(torch.as_tensor(found[name]), torch.as_tensor(value)), name


def write(folder: Path, layout: str) -> dict[str, Any]:
    model, optimizer = trained(layout)
    optimizer.param_groups[0]["lr"] = 0.005
    wanted = values(model, optimizer)
    saver = ShardedCheckpointer(folder)
    saver.save(7, [model], optimizer, shared={"count": 7}, own=f"of {saver._ranks.rank}")
    with torch.no_grad():  # what is trained on meanwhile is not what is written
        for parameter in model.parameters():
            parameter.fill_(9.0)
    saver.close()
    return wanted


def read(folder: Path, layout: str) -> tuple[dict[str, Any], Any]:
    model = laid(made(seed=5), layout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    saver = ShardedCheckpointer(folder)
    loaded = saver.load([model], optimizer)
    saver.close()
    return values(model, optimizer), loaded


WORLDS = {"alone": 1, "ddp": 2, "fsdp": 2, "hsdp": 4}
PAIRS = [
    ("fsdp", "alone"),
    pytest.param("alone", "fsdp", marks=pytest.mark.slow),
    pytest.param("ddp", "hsdp", marks=pytest.mark.slow),
    pytest.param("hsdp", "fsdp", marks=pytest.mark.slow),
    pytest.param("fsdp", "ddp", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_any_layout_is_read_into_any_other(before: str, after: str, tmp_path: Path) -> None:
    wanted = call(before, write, tmp_path, before)[0]
    for rank, (found, loaded) in enumerate(call(after, read, tmp_path, after)):
        same(found, wanted)
        assert loaded.step == 7
        assert loaded.shared == {"count": 7}
        assert loaded.own == (f"of {rank}" if WORLDS[before] == WORLDS[after] else None)


def call(layout: str, function: Any, *args: Any) -> list[Any]:
    if WORLDS[layout] == 1:
        return [function(*args)]
    return ranks(WORLDS[layout], function, *args)


def test_training_goes_on_as_if_it_had_not_been_stopped(tmp_path: Path) -> None:
    model, optimizer = trained("alone")
    saver = ShardedCheckpointer(tmp_path)
    saver.save(3, [model], optimizer)
    other = made(seed=8)
    adam = torch.optim.AdamW(other.parameters(), lr=0.01, weight_decay=0.1)
    assert saver.load([other], adam) is not None
    for x in torch.randn(4, 8, 6):
        for one, its in ((model, optimizer), (other, adam)):
            one(x).square().mean().backward()
            its.step()
            its.zero_grad()
    same(values(other, adam), values(model, optimizer))
    saver.close()


def test_the_last_few_are_kept_and_what_is_not_whole_is_not_taken(tmp_path: Path) -> None:
    model = made()
    saver = ShardedCheckpointer(tmp_path, keep=2)
    for step in (1, 2, 10, 11):
        saver.save(step, [model])
    saver.wait()
    assert saver.steps() == [10, 11]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-000000010", "step-000000011"]
    (tmp_path / "step-000000012").mkdir()
    (tmp_path / "step-000000012" / "__0_0.distcp").write_bytes(b"half")
    (tmp_path / "step-000000013.partial").mkdir()
    (tmp_path / "step-000000010").rename(tmp_path / "step-000000010.replaced")  # killed between
    (tmp_path / "step-000000002.gone").mkdir()  # killed while removing
    (tmp_path / "step-000000002.gone" / ".metadata").touch()
    assert saver.last() == 11
    with pytest.raises(FileNotFoundError, match="no whole checkpoint step-000000012"):
        saver.load([model], step=12)
    saver.close()
    ShardedCheckpointer(tmp_path).close()
    names = ["step-000000010", "step-000000011", "step-000000012"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


@pytest.mark.parametrize("name", [".metadata", "__0_0.distcp"])
def test_a_directory_cut_short_is_named_and_the_one_before_it_taken(
    name: str, tmp_path: Path
) -> None:
    model = made()
    saver = ShardedCheckpointer(tmp_path)
    for step in (1, 2):
        saver.save(step, [model], shared=f"step {step}")
    saver.wait()
    file = tmp_path / "step-000000002" / name
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.warns(UserWarning, match=f"step-000000002/{name} is cut short"):
        loaded = saver.load([model])
    assert loaded is not None
    assert loaded.shared == "step 1"
    saver.close()


def test_a_step_that_was_saved_before_is_replaced(tmp_path: Path) -> None:
    model = made()
    saver = ShardedCheckpointer(tmp_path)
    saver.save(1, [model], shared="first")
    saver.save(1, [model], shared="second")
    loaded = saver.load([model])
    assert loaded is not None
    assert loaded.shared == "second"
    saver.close()


def test_nothing_is_loaded_where_nothing_is(tmp_path: Path) -> None:
    saver = ShardedCheckpointer(tmp_path / "new")
    assert saver.last() is None
    assert saver.load([made()]) is None
    saver.close()
    with pytest.raises(ValueError, match="at least one"):
        ShardedCheckpointer(tmp_path, keep=0)


def test_another_model_is_refused_by_name(tmp_path: Path) -> None:
    saver = ShardedCheckpointer(tmp_path)
    saver.save(1, [made()])
    other = nn.Sequential(nn.Linear(6, 10), nn.Tanh(), nn.Linear(10, 3))
    before = copy.deepcopy(other.state_dict())
    with pytest.raises(ValueError, match=r"another model.*this model lacks model\.2\.num_batches"):
        saver.load([other])
    same(dict(other.state_dict()), dict(before))
    wide = made()
    wide[3] = nn.Linear(10, 4)
    with pytest.raises(ValueError, match=r"cannot be read into this model: rank 0.*ize mismatch"):
        saver.load([wide])
    saver.close()


def test_an_optimizer_that_has_not_stepped_is_saved_and_left_as_it_is(tmp_path: Path) -> None:
    model = made()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.3)
    saver = ShardedCheckpointer(tmp_path)
    saver.save(0, [model], optimizer)
    assert not optimizer.state
    stepped, its = trained("alone")
    assert saver.load([stepped], its) is not None
    assert not its.state
    assert its.param_groups[0]["lr"] == 0.3
    saver.close()


def test_a_parameter_without_state_begins_with_zeros(tmp_path: Path) -> None:
    model = made()
    optimizer = torch.optim.AdamW(model.parameters())
    model[0](torch.randn(2, 6)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    saver = ShardedCheckpointer(tmp_path)
    saver.save(1, [model], optimizer)
    other = made(seed=2)
    its = torch.optim.AdamW(other.parameters())
    saver.load([other], its)
    assert its.state[other[0].weight]["step"].item() == 1
    fresh = its.state[other[3].weight]
    assert fresh["step"].item() == 0
    assert not fresh["exp_avg"].any()
    saver.close()


def test_more_tensors_may_be_sharded_too(tmp_path: Path) -> None:
    def write_average() -> torch.Tensor:
        model = fully_shard(made(seed=3))
        average = {name: p.detach() * 2 for name, p in model.named_parameters()}
        saver = ShardedCheckpointer(tmp_path)
        saver.save(1, [model], tensors=average)
        saver.close()
        return whole(average["0.weight"])

    wanted = ranks(2, write_average)[0]
    target = {name: torch.zeros_like(p) for name, p in made().named_parameters()}
    saver = ShardedCheckpointer(tmp_path)
    assert saver.load([made()], tensors=target) is not None
    assert torch.equal(target["0.weight"], wanted)
    saver.close()


def test_a_folder_that_a_rank_does_not_see_is_told(tmp_path: Path) -> None:
    def apart() -> str:
        folder = tmp_path / str(dist.get_rank())
        folder.mkdir(exist_ok=True)
        saver = ShardedCheckpointer(folder)
        try:
            saver.load([made()], step=1)
        except FileNotFoundError as error:
            return str(error)
        return ""

    one = ShardedCheckpointer(tmp_path / "0")
    one.save(1, [made()])
    one.close()
    assert all("not there for ranks [1]" in words for words in ranks(2, apart))


def test_what_went_wrong_in_a_save_is_raised_by_the_next(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        blocked = tmp_path / "full"
        saver = ShardedCheckpointer(blocked)
        blocked.rmdir()
        blocked.write_text("a file where the folder was")
    else:
        saver = ShardedCheckpointer(tmp_path)
        tmp_path.chmod(0o500)
    saver.save(1, [made()])
    with pytest.raises(RuntimeError, match=r"could not be written: rank 0.*(directory|denied)"):
        saver.wait()
    saver.close()
