"""The cheapest set of measures under which a training step fits a memory limit."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from torch import nn

from hotlap.common.recomputing import repeated
from hotlap.memory.measuring import Fit, Loss, MakeOptimizer, Task, bf16_time, measure
from hotlap.memory.prediction import StepMemory

# What each measure multiplies a step's time by; rough, and only their order counts.
# A doubling of the micro-batches costs enough that recomputation comes before more than eight.
RECOMPUTING_COST, BF16_COST, OFFLOADING_COST, SPLITTING_COST = 1.33, 1.01, 1.6, 1.08
HOPE = 1.25  # a prediction up to so far above the limit is still measured
CALIBRATED_HOPE = 1.05  # the same once predictions are scaled by measurements
MAX_BF16_TIME = 1.05  # of a step in float32: slower bf16 is not chosen to save memory
MEASUREMENTS = 12


def fit(
    model: nn.Module,
    batch: object,
    loss: Loss,
    optimizer: MakeOptimizer | Sequence[MakeOptimizer],
    limit: int,
    *,
    half: bool = True,
    measurements: int = MEASUREMENTS,
) -> Fit:
    """Find the cheapest measures under which a step on `batch` takes at most `limit` bytes.

    Candidates are ordered by cost; those whose predicted peak is near the limit are run on a copy
    of the model, and the first that is measured to fit is the answer. On CUDA the measure is the
    allocator's peak, else the bytes of live tensors. `model` and the random numbers stay as they
    were.

    Args:
        model: on the device it will train on.
        batch: a whole batch, on that device; tensors are split along their first dimension.
        loss: `loss(model, batch)` gives the mean loss.
        optimizer: `optimizer(model)` makes the optimizer; its state counts after its first step.
            Several, such as AdamW and then Adafactor with its smaller state, are taken in their
            order: the next one where nothing fits with those before.
        limit: bytes.
        half: whether bf16 autocast may be used. It is taken only where it is measured to lower the
            peak on this device and to take at most 5 % longer for a step than float32.
        measurements: sets of measures to run at most for each optimizer, two steps of at most two
            micro-batches each; the test of bf16 is once another 12 steps and two measurements.

    Raises:
        ValueError: nothing that was run fits, or `measurements` is below 1; the message has the
            smallest peak measured, which is a limit that can be met.
    """
    if measurements < 1:
        raise ValueError(f"measurements is {measurements}: at least 1 is needed")
    task = Task(model, batch, loss)
    least: list[Fit] = []
    for index, make in enumerate([optimizer] if callable(optimizer) else optimizer):
        search = _Search(task, make, limit, half=half)
        found = search.run(measurements)
        if found is not None:
            return replace(found, optimizer=index)
        least.append(replace(search.smallest(), optimizer=index))
    best = min(least, key=lambda plan: plan.measured)
    raise ValueError(
        f"no set of measures fits {limit} bytes; the smallest measured total is {best.measured} "
        f"bytes, with {best.engine} and optimizer {best.optimizer}"
    )


class _Search:
    """Measures plans for one optimizer, the cheapest first."""

    def __init__(self, task: Task, optimizer: MakeOptimizer, limit: int, *, half: bool) -> None:
        self.task, self.optimizer, self.limit = task, optimizer, limit
        self.parts = StepMemory.of(task, optimizer)
        self.plans = sorted(
            (replace(p, predicted=self.parts.peak(p)) for p in _plans(task, half=half)),
            key=lambda plan: plan.cost,
        )
        self.measured: list[Fit] = []
        self._bf16_time = 0.0
        self._bf16_refused = False

    def run(self, measurements: int) -> Fit | None:
        """The first plan that is measured to fit; the last one measured is the smallest."""
        if self.parts.fixed > self.limit:  # no measure makes these smaller
            return None
        for plan in self.plans:
            if len(self.measured) >= measurements - 1:
                break
            if self._may_fit(plan) and self._serves(plan):
                found = self._run(plan)
                if found.measured <= self.limit:
                    return replace(found, bf16_time=self._time_of(found))
        smallest = self.smallest()
        return smallest if smallest.measured <= self.limit else None

    def smallest(self) -> Fit:
        """The plan with the smallest measured peak; the one predicted to be is measured first."""
        by_size = sorted(self.plans, key=lambda plan: plan.predicted)
        plan = next(filter(self._serves, by_size))
        if not any(replace(each, measured=0) == plan for each in self.measured):
            self._run(plan)
        best = min(self.measured, key=lambda each: each.measured)
        return replace(best, bf16_time=self._time_of(best))

    def _time_of(self, plan: Fit) -> float:
        return self._bf16_time if plan.precision == "bf16" else 0.0

    def _run(self, plan: Fit) -> Fit:
        found = replace(plan, measured=measure(self.task, self.optimizer, plan))
        self.measured.append(found)
        return found

    def _may_fit(self, plan: Fit) -> bool:
        """By the prediction, scaled by the smallest ratio of a measured peak to its prediction."""
        if not self.measured:
            return plan.predicted <= HOPE * self.limit
        scale = min(each.measured / each.predicted for each in self.measured)
        return plan.predicted * scale <= CALIBRATED_HOPE * self.limit

    def _serves(self, plan: Fit) -> bool:
        """Whether bf16, if the plan has it, lowers the peak here and costs little time."""
        if plan.precision == "fp32":
            return True
        if not self._bf16_time and not self._bf16_refused:
            self._bf16_time = bf16_time(self.task, self.optimizer, plan)
            half, full = (
                measure(self.task, self.optimizer, replace(plan, precision=precision))
                for precision in ("bf16", "fp32")
            )
            self._bf16_refused = self._bf16_time > MAX_BF16_TIME or half >= full
        return not self._bf16_refused


def _plans(task: Task, *, half: bool) -> Iterator[Fit]:
    rows = task.rows
    splits = [1 << k for k in range(rows.bit_length()) if 1 << k <= rows]
    blocks = (0, 1) if repeated(task.model) else (0,)
    precisions = ("fp32", "bf16") if half else ("fp32",)
    offload = (False, True) if task.device.type == "cuda" else (False,)
    for split, every, precision, away in product(splits, blocks, precisions, offload):
        cost = SPLITTING_COST ** (split.bit_length() - 1)
        cost *= (RECOMPUTING_COST if every else 1) * (BF16_COST if precision == "bf16" else 1)
        cost *= OFFLOADING_COST if away else 1
        yield Fit(split, precision, every, away, cost=cost)
