"""What goes to the loggers, and when."""

import time
from collections.abc import Mapping

from torch import Tensor

from hotlap.engine.loggers import Logger
from hotlap.engine.readings import Readings, Value
from hotlap.engine.stepper import Stepper


class Logs:
    """Hands figures to the loggers once they have arrived from the device."""

    def __init__(self, loggers: tuple[Logger, ...], every: int) -> None:
        self.active = bool(loggers)
        self._loggers = loggers
        self._every = every
        self._readings = Readings()
        self._more: dict[str, Value] = {}
        self._since = time.perf_counter(), 0

    def add(self, values: Mapping[str, Value]) -> None:
        """Give more figures with the next ones."""
        self._more.update(values)

    def step(self, count: int, loss: Tensor, stepper: Stepper) -> None:
        """A step was made: ask for its figures, if it is time, and hand on what has arrived."""
        if count % self._every == 0:
            self._readings.put(count, self._values(count, loss, stepper))
        for step, values in self._readings.arrived():
            self._tell(step, values)

    def _values(self, count: int, loss: Tensor, stepper: Stepper) -> dict[str, Value]:
        now, (then, before) = time.perf_counter(), self._since
        self._since = now, count
        values: dict[str, Value] = {"loss": loss, "lr": stepper.optimizer.param_groups[0]["lr"]}
        if stepper.norm is not None:
            values["grad_norm"] = stepper.norm
        more, self._more = self._more, {}
        return {**values, "steps_per_second": (count - before) / (now - then), **more}

    def _tell(self, step: int, values: dict[str, float]) -> None:
        for logger in self._loggers:
            logger.log(step, values)

    def close(self) -> None:
        """Hand on the rest."""
        for step, values in self._readings.rest():
            self._tell(step, values)
        for logger in self._loggers:
            logger.close()
