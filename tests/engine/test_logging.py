"""Loggers: what they get, when, and the adapters."""

import io
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from engine.engine_loops import criterion, task
from hotlap.engine import Engine, EngineConfig, MLflow, Progress, TensorBoard, WandB


class Kept:
    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, float]]] = []
        self.closed = False

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.rows.append((step, dict(values)))

    def close(self) -> None:
        self.closed = True


def test_figures_come_every_so_often_and_are_right() -> None:
    model, optimizer, scheduler, loader = task(2)
    kept, losses = Kept(), []
    config = EngineConfig(log_every=4, clip=1.0)
    with Engine(model, optimizer, scheduler=scheduler, config=config, loggers=[kept]) as engine:
        for x, y in engine.steps(loader):
            loss = criterion(engine.model(x), y)
            losses.append(loss.item())
            engine.log(twice=2 * loss)
            engine.step(loss)
    assert [step for step, _ in kept.rows] == [4, 8]
    for step, values in kept.rows:
        assert values["loss"] == losses[step - 1]
        assert values["twice"] == pytest.approx(2 * losses[step - 1])
        assert values["grad_norm"] > 0
        assert values["steps_per_second"] > 0
    assert kept.rows[0][1]["lr"] == pytest.approx(0.01 * 0.99**4)
    assert kept.closed


def test_tensorboard_files_hold_the_figures(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logger = TensorBoard(tmp_path)
    logger.log(3, {"loss": 0.5})
    logger.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(3, 0.5)]


class Spy:
    def __init__(self, calls: list[Any]) -> None:
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._calls.append((name, args, kwargs))
            return self

        return call


@pytest.mark.parametrize(
    ("module", "logger", "calls"),
    [
        ("wandb", WandB, ["init", "log", "finish"]),
        ("mlflow", MLflow, ["start_run", "log_metrics", "end_run"]),
    ],
)
def test_trackers_are_spoken_to_in_their_own_words(
    module: str, logger: Any, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    fake = types.ModuleType(module)
    fake.__getattr__ = Spy(seen).__getattr__  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, module, fake)
    made = logger(name="run")
    made.log(7, {"loss": 1.5})
    made.close()
    assert [name for name, *_ in seen] == calls
    assert seen[0][2] == {"name": "run"}
    assert seen[1][1:] == (({"loss": 1.5},), {"step": 7})


def test_progress_shows_step_and_loss() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with Progress(100, console) as progress:
        progress.log(40, {"loss": 0.25})
        progress._bar.refresh()
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "step 40/100" in text
    assert "loss 0.25" in text


def test_without_loggers_nothing_is_read() -> None:
    model, optimizer, _, loader = task(2)
    with Engine(model, optimizer) as engine:
        for x, y in engine.steps(loader):
            engine.step(criterion(engine.model(x), y))
        assert not list(engine._logs._readings.rest())


def test_importing_the_engine_brings_no_tracker() -> None:
    import subprocess

    program = (
        "import sys, hotlap.engine.engine\n"
        "assert not {'wandb', 'mlflow', 'tensorboard', 'rich', 'hotlap.core'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert torch.is_grad_enabled()
