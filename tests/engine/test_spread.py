"""The same loop over ranks: equal to one process; stopped in one layout, it goes on in another."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from hotlap.data import Loader
from hotlap.engine import Engine, EngineConfig
from hotlap.parallel import Parallelism, Parallelized, parallelize
from parallel.farm import run
from parallel.gpt import GPT, loss

GLOBAL, ACCUMULATE, EPOCHS, STEPS = 8, 2, 2, 10
ALONE = Parallelism()
LAYOUTS = {
    "alone": ALONE,
    "ddp": Parallelism.of(replicate=2),
    "fsdp": Parallelism.of(shard=2),
    "tensor": Parallelism.of(tensor=2),
    "pipeline": Parallelism.of(pipeline=2),
    "interleaved": Parallelism.of(pipeline=2, schedule="Interleaved1F1B"),
    "fsdp x tensor": Parallelism.of(shard=2, tensor=2),
    "fsdp x pipeline": Parallelism.of(shard=2, pipeline=2),
}
GOES_ON = [
    ("alone", "fsdp"),
    pytest.param("fsdp", "tensor", marks=pytest.mark.slow),
    pytest.param("pipeline", "alone", marks=pytest.mark.slow),
    pytest.param("fsdp x tensor", "interleaved", marks=pytest.mark.slow),
    pytest.param("interleaved", "fsdp", marks=pytest.mark.slow),
    pytest.param("fsdp x pipeline", "ddp", marks=pytest.mark.slow),
    pytest.param("ddp", "fsdp x pipeline", marks=pytest.mark.slow),
]


class Sentences:
    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        words = torch.randint(0, 32, (9,), generator=torch.Generator().manual_seed(index))
        return words[:-1], words[1:]


def trained(layout: str, folder: Path, stop: int = STEPS) -> dict[str, Tensor]:
    """Resume if there is something to resume, go on to step `stop`; this rank's parameters."""
    torch.manual_seed(0)
    spread = parallelize(GPT().double(), LAYOUTS[layout], tp_plan="gpt", loss=loss)
    optimizer = torch.optim.AdamW(spread.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    mine = GLOBAL // ACCUMULATE // spread.mesh.data_ranks
    loader = Loader(
        Sentences(), mine, shuffle=True, seed=4, workers=0,
        rank=spread.mesh.data_rank, world_size=spread.mesh.data_ranks,
    )  # fmt: skip
    config = EngineConfig(accumulate=ACCUMULATE, clip=0.1, folder=str(folder), save_every=3)
    with Engine(spread, optimizer, scheduler=scheduler, config=config) as engine:
        before = 6 if engine.resume() else 0
        assert engine.global_step == before
        loop(engine, spread, loader, stop)
        return full(spread)


def loop(engine: Engine, spread: Parallelized, loader: Loader, stop: int) -> None:
    for _ in engine.epochs(EPOCHS):
        for x, y in engine.steps(loader):
            if engine.global_step == stop:
                return
            if spread.pipeline is not None:
                engine.pipeline_step(x, target=y)
                continue
            with engine.forward():
                value = loss(engine.model(x), y)
            engine.step(value)


def full(spread: Parallelized) -> dict[str, Tensor]:
    held = {n: p.detach() for part in spread.parts for n, p in part.named_parameters()}
    whole = {n: p.full_tensor() if hasattr(p, "full_tensor") else p for n, p in held.items()}
    return {name.removeprefix("module."): p.clone() for name, p in whole.items()}


def called(layout: str, *args: Any) -> list[dict[str, Tensor]]:
    world = LAYOUTS[layout].world
    return [trained(layout, *args)] if world == 1 else run(world, trained, layout, *args)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tensor]:
    """The plain loop, without engine or loader."""
    torch.manual_seed(0)
    model = GPT().double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loader = Loader(Sentences(), GLOBAL, shuffle=True, seed=4, workers=0, rank=0, world_size=1)
    for epoch in range(EPOCHS):
        del epoch
        for x, y in loader:
            loss(model(x), y).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            optimizer.zero_grad()
            optimizer.param_groups[0]["lr"] *= 0.9
    return {name: p.detach() for name, p in model.named_parameters()}


@pytest.mark.parametrize(("before", "after"), GOES_ON)
def test_stopped_in_one_layout_it_goes_on_in_another(
    before: str, after: str, tmp_path: Path, reference: dict[str, Tensor]
) -> None:
    called(before, tmp_path, 7)  # of which step 7 is lost
    found: dict[str, Tensor] = {}
    for parameters in called(after, tmp_path):
        found |= parameters
    assert found.keys() == reference.keys()
    for name, value in found.items():
        assert torch.allclose(value, reference[name], rtol=0, atol=1e-11), name


def small(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def with_a_data_loader(folder: Path) -> str:
    model = DistributedDataParallel(small())
    config = EngineConfig(folder=str(folder), save_every=1)
    with Engine(model, torch.optim.SGD(model.parameters(), lr=0.1), config=config) as engine:
        engine.resume()
        try:
            for x in engine.steps(DataLoader(torch.randn(4, 4), batch_size=1)):
                engine.step(engine.model(x).square().mean())
                if engine.global_step == 2:
                    break
        except ValueError as error:
            return str(error)
    return ""


@pytest.mark.slow
def test_a_loader_that_cannot_be_cut_anew_is_refused_in_the_middle_of_a_pass(
    tmp_path: Path,
) -> None:
    assert run(2, with_a_data_loader, tmp_path) == ["", ""]
    for words in run(3, with_a_data_loader, tmp_path):
        assert "use hotlap.data.Loader, or resume with as many ranks" in words


class Average:
    """A running average of weights, sharded as they are."""

    def __init__(self, model: nn.Module) -> None:
        self.held = {name: p.detach().clone() for name, p in model.named_parameters()}

    def state_dict(self) -> dict[str, Tensor]:
        return self.held

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.held = dict(state)


class Counter:
    def __init__(self) -> None:
        self.seen = 0

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen = state["seen"]


def with_extras(folder: Path, seed: int) -> tuple[Tensor, int]:
    model = fully_shard(small(seed)) if dist.is_initialized() else small(seed)
    average, counter = Average(model), Counter()
    config = EngineConfig(folder=str(folder))
    extra = {"average": average, "counter": counter}
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    with Engine(model, sgd, config=config, extra=extra) as engine:
        if not engine.resume():
            counter.seen = 5
            engine.save()
    held = average.held["0.weight"]
    return held.full_tensor() if hasattr(held, "full_tensor") else held, counter.seen


@pytest.mark.slow
def test_extras_are_saved_whether_sharded_or_not(tmp_path: Path) -> None:
    wanted = small(1)[0].weight
    assert torch.equal(run(2, with_extras, tmp_path, 1)[0][0], wanted)
    for held, seen in run(4, with_extras, tmp_path, 2):
        assert torch.equal(held, wanted)
        assert seen == 5


def static_graph() -> dict[str, Tensor]:
    model = DistributedDataParallel(small(), static_graph=True)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.arange(96.0).reshape(12, 2, 4).sin()
    with Engine(model, sgd, config=EngineConfig(accumulate=3)) as engine:
        for x in engine.steps(list(data[dist.get_rank() :: 2])):
            engine.step(engine.model(x).square().mean())
    return {name: value.detach() for name, value in model.module.state_dict().items()}


def test_a_static_graph_is_learnt_and_its_gradients_are_whole() -> None:
    model = small()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    for group in torch.arange(96.0).reshape(12, 2, 4).sin().split(6):
        model(group.flatten(0, 1)).square().mean().backward()
        sgd.step()
        sgd.zero_grad()
    for found in run(2, static_graph):
        for name, value in model.state_dict().items():
            assert torch.allclose(found[name], value, atol=1e-6), name


def evaluated_first() -> float:
    model = fully_shard(small(), reshard_after_forward=False)
    with Engine(model, torch.optim.SGD(model.parameters(), lr=0.1)) as engine:
        x = torch.ones(2, 4)
        with engine.evaluating():
            assert not engine.model(x).requires_grad
        for batch in engine.steps([x, x]):
            value = engine.model(batch).square().mean()
            engine.step(value)
    return value.item()


def test_evaluating_before_the_first_step_does_not_harm_shards() -> None:
    assert len(set(run(2, evaluated_first))) == 1


def overflow_on_one_rank() -> list[Any]:
    model = fully_shard(small())
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    found: list[Any] = []
    with Engine(model, sgd, config=EngineConfig(precision="fp16", clip=1.0)) as engine:
        for number, x in enumerate(engine.steps([torch.ones(2, 4)] * 2)):
            before = model[0].weight.full_tensor().clone()
            with engine.forward():
                value = engine.model(x).square().mean()
            bad = number == 0 and dist.get_rank() == 0
            engine.step(value * (torch.inf if bad else 1.0))
            found.append(torch.equal(before, model[0].weight.full_tensor()))
        found.append(engine.stepper.scaler.get_scale())
    return found


def test_a_step_that_overflows_on_one_rank_is_left_out_on_all() -> None:
    first, second = run(2, overflow_on_one_rank)
    assert first == second
    assert first[:2] == [True, False]


def test_what_comes_too_late_is_refused() -> None:
    spread = parallelize(small(), ALONE)
    sgd = torch.optim.SGD(spread.parameters(), lr=0.1)
    with pytest.raises(ValueError, match=r"EngineConfig\(compile=.*too late"):
        Engine(spread, sgd, config=EngineConfig(compile="default"))
    with (
        Engine(spread, sgd) as engine,
        pytest.raises(ValueError, match="there is no pipeline here"),
    ):
        engine.pipeline_step(torch.ones(1, 4), target=torch.ones(1, 1))
