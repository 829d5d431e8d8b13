"""One process against ranks: the same model, batches and optimizer, step by step."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from hotlap.engine.sync import GradientSync
from hotlap.optim import NVLAMB
from hotlap.parallel import Parallelism, Preparation, parallelize
from hotlap.parallel.applying import Parallelized
from parallel.gpt import GPT, loss

Batches = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Case:
    """A row of the table: a layout, and what else is done with it."""

    name: str
    parallelism: Parallelism
    clip: float = 0.0
    accumulate: int = 1
    preparation: Preparation = field(default_factory=Preparation)
    layers: int = 4
    steps: int = 10
    dtype: torch.dtype = torch.float64
    optimizer: str = "AdamW"

    @property
    def world(self) -> int:
        return self.parallelism.world


@dataclass
class Outcome:
    """What training came to: loss and norm of each step, and the parameters after the last."""

    losses: list[float]
    norms: list[float]
    parameters: dict[str, Tensor]


def model(case: Case) -> nn.Module:
    torch.manual_seed(0)
    return GPT(case.layers).to(case.dtype)


def data(case: Case) -> Batches:
    """Ids and targets (steps, accumulate, batch, time)."""
    torch.manual_seed(1)
    shape = (case.steps, case.accumulate, 16, 8)
    return torch.randint(0, 32, shape), torch.randint(0, 32, shape)


def optimizer(case: Case, parameters: Any) -> torch.optim.Optimizer:
    import hotlap.optim

    if case.optimizer == "AdamW":
        return torch.optim.AdamW(parameters, lr=1e-2)
    rates = {"LAMB": 1e-2, "LARS": 1.0, "NVLAMB": 1e-2}
    made: Callable[..., torch.optim.Optimizer] = getattr(hotlap.optim, case.optimizer)
    return made(parameters, lr=rates[case.optimizer], weight_decay=0.1)


def alone(case: Case) -> Outcome:
    """One process, plain torch."""
    net = model(case)
    steps = optimizer(case, net.parameters())
    found = Outcome([], [], {})
    for ids, targets in zip(*data(case), strict=True):
        total = 0.0
        for x, y in zip(ids, targets, strict=True):
            value = loss(net(x), y) / case.accumulate
            value.backward()
            total += value.item()
        norm = nn.utils.clip_grad_norm_(net.parameters(), case.clip or 1e9)
        found.norms.append(norm.item())
        steps.step()
        steps.zero_grad()
        found.losses.append(total)
    found.parameters = {name: p.detach() for name, p in net.named_parameters()}
    return found


def rank(case: Case) -> Outcome:
    """One rank of the layout."""
    spread = parallelize(
        model(case), case.parallelism, tp_plan="gpt", loss=loss, preparation=case.preparation
    )
    steps = optimizer(case, spread.parameters())
    along = spread.mesh["pipeline"]
    if isinstance(steps, NVLAMB) and along is not None:
        steps.stages = along.get_group()
    found = Outcome([], [], {})
    parts, own = spread.mesh.data_ranks, spread.mesh.data_rank
    mine = [t.chunk(parts, dim=2)[own].to(spread.mesh.device) for t in data(case)]
    sync = GradientSync(spread.model)
    for ids, targets in zip(*mine, strict=True):
        total = torch.zeros((), dtype=torch.float64, device=spread.mesh.device)
        for index, (x, y) in enumerate(zip(ids, targets, strict=True)):
            sync.switch(index == case.accumulate - 1)
            total += micro_step(spread, x, y, case.accumulate)
        found.losses.append(everywhere(spread, total))
        found.norms.append((spread.clip(case.clip) if case.clip else spread.norm()).item())
        steps.step()
        steps.zero_grad()
    found.parameters = full(spread)
    return found


def micro_step(spread: Parallelized, x: Tensor, y: Tensor, over: int) -> Tensor:
    if spread.pipeline is not None:
        with spread.loss_context():
            value = spread.pipeline.step(x, target=y, over=float(over))
        return spread.pipeline.everywhere(value) / over
    with spread.loss_context():
        value = loss(spread.model(x), y) / over
        value.backward()
    value = value.full_tensor() if isinstance(value, DTensor) else value
    return value.detach().double()


def everywhere(spread: Parallelized, value: Tensor) -> float:
    """The mean over the ranks with other data."""
    for name in ("replicate", "shard"):
        along = spread.mesh[name]
        if along is not None:
            torch.distributed.all_reduce(value, group=along.get_group())
    return value.item() / spread.mesh.data_ranks


def full(spread: Parallelized) -> dict[str, Tensor]:
    found = {}
    for part in spread.parts:
        for name, parameter in part.named_parameters():
            held: Any = parameter.detach()
            whole = held.full_tensor() if isinstance(held, DTensor) else held
            found[name.removeprefix("module.")] = whole.clone()
    return found


def differences(wanted: Outcome, found: list[Outcome], part: bool = False) -> dict[str, float]:
    """The largest differences in loss, norm (relative) and parameters, over ranks and steps.

    `part`: some stages only, which have not all parameters.
    """
    worst = {"loss": 0.0, "norm": 0.0, "parameters": 0.0}
    names: set[str] = set()
    for outcome in found:
        names |= outcome.parameters.keys()
        pairs = zip(outcome.losses, wanted.losses, strict=True)
        worst["loss"] = max(worst["loss"], *(abs(a - b) for a, b in pairs))
        norms = zip(outcome.norms, wanted.norms, strict=True)
        worst["norm"] = max(worst["norm"], *(abs(a / b - 1) for a, b in norms))
        for name, value in outcome.parameters.items():
            apart = (value.cpu() - wanted.parameters[name]).abs().max().item()
            worst["parameters"] = max(worst["parameters"], apart)
    assert part or names == wanted.parameters.keys(), names ^ wanted.parameters.keys()
    return worst
