"""Stopped anywhere and taken up again by new objects: bitwise the same losses."""

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from engine.engine_loops import Net, criterion
from hotlap.engine import Engine, EngineConfig


class Noisy(Dataset[tuple[torch.Tensor, int]]):
    """Draws from every stream, and from one of its own, whenever it is read."""

    def __init__(self) -> None:
        self.own = np.random.default_rng(9)

    def __len__(self) -> int:
        return 22

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        noise = random.random() + float(np.random.rand()) + float(self.own.random())
        return torch.randn(6) + index / 10 + noise, index % 3


def made(config: EngineConfig, workers: int) -> tuple[Engine, DataLoader[Any]]:
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=60)
    generator = torch.Generator().manual_seed(4)
    loader = DataLoader(Noisy(), 4, shuffle=True, num_workers=workers, generator=generator)
    return Engine(model, optimizer, scheduler=scheduler, config=config), loader


def losses(engine: Engine, loader: Any, stop: int = 1 << 30) -> Iterator[tuple[int, str]]:
    steps = math.ceil(len(loader) / engine.config.accumulate)
    for _ in engine.epochs(3):
        for x, y in engine.steps(loader):
            with engine.forward():
                loss = criterion(engine.model(x), y)
            at = engine.global_step
            engine.step(loss)
            yield at, loss.item().hex()
            if engine.global_step >= stop and engine.global_step % steps:
                return
        with engine.evaluating():
            list(loader)
            torch.rand(3)
        if engine.global_step >= stop:
            return


def run(config: EngineConfig, workers: int) -> list[tuple[int, str]]:
    engine, loader = made(config, workers)
    with engine:
        return list(losses(engine, loader))


@pytest.mark.parametrize(
    ("precision", "accumulate", "stops"),
    [("fp32", 1, range(1, 18)), ("fp16", 4, range(1, 6)), ("bf16", 2, (1, 3, 4, 7))],
)
def test_resumed_at_any_step(precision: str, accumulate: int, stops: Any, tmp_path: Path) -> None:
    plain = EngineConfig(precision=precision, accumulate=accumulate, seed=3)
    whole = run(plain, workers=0)
    assert len({text for _, text in whole}) > 10
    for stop in stops:
        config = EngineConfig(
            precision=precision, accumulate=accumulate, seed=3,
            folder=str(tmp_path / str(stop)), save_every=1,
        )  # fmt: skip
        engine, loader = made(config, 0)
        with engine:
            before = list(losses(engine, loader, stop))
        again, loader = made(config, 0)
        with again:
            assert again.resume()
            taken = again.global_step
            assert taken == stop
            after = list(losses(again, loader))
        assert [entry for entry in before if entry[0] < taken] + after == whole


def test_resumed_with_workers(tmp_path: Path) -> None:
    whole = run(EngineConfig(seed=3), workers=2)
    config = EngineConfig(seed=3, folder=str(tmp_path), save_every=4)
    engine, loader = made(config, 2)
    with engine:
        before = list(losses(engine, loader, 7))
    again, loader = made(config, 2)
    with again:
        assert again.resume()
        assert again.global_step == 4
        after = list(losses(again, loader))
    assert before[:4] + after == whole


def test_nothing_to_resume(tmp_path: Path) -> None:
    engine, _ = made(EngineConfig(folder=str(tmp_path)), 0)
    assert not engine.resume()
    engine.close()


def test_other_data_than_were_saved_are_refused() -> None:
    engine, loader = made(EngineConfig(), 0)
    for _ in zip(losses(engine, loader), range(4), strict=False):
        pass
    state = engine.state_dict()
    state["position"]["read"] = state["position"]["taken"] = 50
    engine.load_state_dict(state)
    with pytest.raises(ValueError, match="gives only 6 now"):
        list(losses(engine, loader))
    plain = DataLoader([1, 2, 3])
    engine.load_state_dict(state)
    with pytest.raises(ValueError, match="resume with the loader that was saved"):
        next(iter(engine.steps(plain)))


def test_extra_state_travels(tmp_path: Path) -> None:
    class Mean:
        value = 0.0

        def state_dict(self) -> dict[str, float]:
            return {"value": self.value}

        def load_state_dict(self, state: dict[str, float]) -> None:
            self.value = state["value"]

    def engine(mean: Mean) -> Engine:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        config = EngineConfig(folder=str(tmp_path))
        return Engine(model, optimizer, config=config, extra={"mean": mean})

    first, second = Mean(), Mean()
    first.value = 2.5
    with engine(first) as one:
        one.save()
    with engine(second) as other:
        assert other.resume()
    assert second.value == 2.5


def test_saving_without_a_folder_says_so() -> None:
    engine, _ = made(EngineConfig(), 0)
    with pytest.raises(ValueError, match="folder"):
        engine.save()


def documented(engine: Engine, loader: Any, epochs: int = 3) -> list[str]:
    """The loop of docs/engine.md, which uses the loop's variables after the loop."""
    found = []
    for _ in engine.epochs(epochs):
        for x, y in engine.steps(loader):
            with engine.forward():
                loss = criterion(engine.model(x), y)
            engine.step(loss)
        found.append(f"{engine.global_step} {loss.item().hex()}")
        with engine.evaluating():
            list(loader)
            found.append(criterion(engine.model(x), y).item().hex())
    return found


@pytest.mark.parametrize("workers", [0, 2])
def test_a_pass_saved_at_its_end_is_not_resumed_without_batches(
    workers: int, tmp_path: Path
) -> None:
    engine, loader = made(EngineConfig(seed=3), workers)
    whole = documented(engine, loader)
    config = EngineConfig(seed=3, folder=str(tmp_path), save_every=6)  # six steps a pass
    engine, loader = made(config, workers)
    with engine:
        documented(engine, loader, 1)
    again, loader = made(config, workers)
    with again:
        assert again.resume()
        assert (again.global_step, again.epoch) == (6, 1)
        assert documented(again, loader) == whole[2:]


def test_saved_by_hand_behind_the_pass_resumes_with_the_next(tmp_path: Path) -> None:
    config = EngineConfig(folder=str(tmp_path))
    engine, loader = made(config, 0)
    with engine:
        for _ in engine.epochs(1):
            for x, y in engine.steps(loader):
                engine.step(criterion(engine.model(x), y))
            engine.save()
    again, loader = made(config, 0)
    with again:
        assert again.resume()
        assert again.epoch == 1
        assert len(documented(again, loader)) == 4


@pytest.mark.parametrize("stop", [4, 6, 9, 12])
@pytest.mark.parametrize("leave", ["break", "return"])
def test_left_by_break_the_due_checkpoint_is_kept(stop: int, leave: str, tmp_path: Path) -> None:
    whole = run(EngineConfig(seed=3), workers=0)

    def some(engine: Engine, loader: Any) -> None:
        for _ in engine.epochs(3):
            for x, y in engine.steps(loader):
                engine.step(criterion(engine.model(x), y))
                if engine.global_step == stop:
                    if leave == "return":
                        return
                    break
            if engine.global_step == stop:
                break
            with engine.evaluating():
                list(loader)
                torch.rand(3)

    config = EngineConfig(seed=3, folder=str(tmp_path), save_every=stop)
    engine, loader = made(config, 0)
    with engine:
        some(engine, loader)
    again, loader = made(config, 0)
    with again:
        assert again.resume()
        assert again.global_step == stop
        if stop % 6:  # behind a pass the evaluation's draws are missing here
            assert list(losses(again, loader)) == whole[stop:]
        else:
            assert again.epoch == stop // 6


def test_a_body_left_before_its_step_saves_nothing(tmp_path: Path) -> None:
    engine, loader = made(EngineConfig(folder=str(tmp_path), save_every=1), 0)
    with engine:
        for _ in engine.steps(loader):
            break
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("accumulate", "prefetch"), [(1, 0), (5, 0), (4, 0), (2, 2)])
def test_every_checkpoint_that_was_due_is_resumed(
    accumulate: int, prefetch: int, tmp_path: Path
) -> None:
    """The last group is read ahead, and the loader at its end, when a save is made before it."""
    fields: dict[str, Any] = {"accumulate": accumulate, "prefetch": prefetch, "seed": 3}
    every = EngineConfig(**fields, folder=str(tmp_path / "all"), save_every=1, keep=100)
    whole = run(every, workers=0)
    files = sorted((tmp_path / "all").glob("step-*.pt"))
    assert len(files) == 3 * math.ceil(6 / accumulate)
    for file in files[:-1]:
        folder = tmp_path / file.stem
        folder.mkdir()
        file.rename(folder / file.name)
        engine, loader = made(EngineConfig(**fields, folder=str(folder)), workers=0)
        with engine:
            assert engine.resume()
            count = engine.global_step
            assert list(losses(engine, loader)) == [loss for loss in whole if loss[0] >= count]
