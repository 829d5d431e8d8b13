"""Where figures go: one small protocol, and what it takes to speak to known trackers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol


class Logger(Protocol):
    """Anything that takes figures by step."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Take the figures of one step."""

    def close(self) -> None:
        """Nothing more will come."""


class TensorBoard:
    """Writes event files for TensorBoard; needs `tensorboard`."""

    def __init__(self, folder: str | Path) -> None:
        from torch.utils.tensorboard.writer import SummaryWriter

        self._writer = SummaryWriter(str(folder))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Write one scalar per figure."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Flush and close the file."""
        self._writer.close()


class WandB:
    """Speaks to Weights & Biases; needs `wandb`. `options` go to `wandb.init`."""

    def __init__(self, **options: Any) -> None:
        import wandb  # type: ignore[import-not-found,unused-ignore]

        self._run = wandb.init(**options)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log the figures of one step."""
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        """End the run."""
        self._run.finish()


class MLflow:
    """Speaks to MLflow; needs `mlflow`. `options` go to `mlflow.start_run`."""

    def __init__(self, **options: Any) -> None:
        import mlflow  # type: ignore[import-not-found,unused-ignore]

        self._mlflow = mlflow
        self._run = mlflow.start_run(**options)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log the figures of one step."""
        self._mlflow.log_metrics(dict(values), step=step)

    def close(self) -> None:
        """End the run."""
        self._mlflow.end_run()
