"""The state of model and optimizer, in one piece also where ranks hold shards of it."""

from typing import Any, Protocol

from torch import nn
from torch.optim import Optimizer

from hotlap.engine.distribution import sharded

State = dict[str, Any]


class Stateful(Protocol):
    """What a checkpoint holds besides: anything that gives its state and takes it up again."""

    def state_dict(self) -> State:
        """Return the state."""

    def load_state_dict(self, state: State, /) -> object:
        """Take up what `state_dict` gave."""


def gather(model: nn.Module, optimizer: Optimizer) -> State:
    """Both states. Of a sharded model they are put together on the first rank: all must call."""
    if not sharded(model):
        return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    from torch.distributed.checkpoint import state_dict as dcp

    options = dcp.StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights = dcp.get_model_state_dict(model, options=options)
    if not optimizer.state:  # nothing but its groups, which every rank has
        return {"model": weights, "optimizer": optimizer.state_dict(), "shards": False}
    state = dcp.get_optimizer_state_dict(model, optimizer, options=options)
    return {"model": weights, "optimizer": state, "shards": True}


def scatter(model: nn.Module, optimizer: Optimizer, state: State) -> None:
    """Load what `gather` gave, sharded or not. In shards the first rank's is spread: all call."""
    if not sharded(model):
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        return
    from torch.distributed.checkpoint import state_dict as dcp

    options = dcp.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    dcp.set_model_state_dict(model, state["model"], options=options)
    saved = state["optimizer"]
    if not (state["shards"] if "shards" in state else saved["state"]):
        optimizer.load_state_dict(saved)
        return
    named = saved if "shards" in state else _by_name(model, optimizer, saved)
    dcp.set_optimizer_state_dict(model, optimizer, named, options=options)


def _by_name(model: nn.Module, optimizer: Optimizer, saved: State) -> State:
    """An optimizer's state of one process: parameters by name instead of by number."""
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

    own: State = dict(get_optimizer_state_dict(model, optimizer))
    names = [name for group in own["param_groups"] for name in group["params"]]
    groups = [
        {**group, "params": [names[number] for number in group["params"]]}
        for group in saved["param_groups"]
    ]
    state = {names[number]: values for number, values in saved["state"].items()}
    return {"state": state, "param_groups": groups}
