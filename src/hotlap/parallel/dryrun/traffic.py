"""Bytes that a collective makes one rank send, by ring."""

from collections.abc import Iterator

import torch.distributed as dist
import torch.distributed.distributed_c10d as _c10d
from torch import ScriptObject, Tensor
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves

# How often the largest tensor's bytes go over the ring of n ranks, times (n - 1) / n.
_TURNS = {"all_gather": 1, "allgather": 1, "reduce_scatter": 1, "all_reduce": 2, "allreduce": 2,
          "all_to_all": 1, "alltoall": 1, "broadcast": 1}  # fmt: skip
_SPACES = ("c10d", "_c10d_functional")


def sent(func: object, args: tuple[object, ...]) -> dict[tuple[str, str], int]:
    """Bytes by (kind, group's name) of one operation; empty for what is no collective."""
    if not isinstance(func, OpOverload) or func.namespace not in _SPACES:
        return {}
    full: str = func.name()  # type: ignore[no-untyped-call]
    name = full.partition("::")[2].strip("_").partition(".")[0]
    if name == "send":
        return {("send", _group(args)): max(_sizes(args), default=0)}
    kind = next((kind for kind in _TURNS if kind in name), None)
    if kind is None:
        return {}
    group, ranks = _group(args), int(_process_group(args).size())
    largest = max(_sizes(args), default=0)
    if name.startswith("all_gather_into") or name == "all_gather_into_tensor_coalesced":
        largest *= ranks  # the functional form has the shard alone among its arguments
    label = {"allgather": "all_gather", "allreduce": "all_reduce", "alltoall": "all_to_all"}
    return {(label.get(kind, kind), group): _TURNS[kind] * largest * (ranks - 1) // ranks}


def _sizes(args: tuple[object, ...]) -> Iterator[int]:
    for leaf in tree_leaves(args):
        if isinstance(leaf, Tensor):
            yield leaf.numel() * leaf.element_size()


def _process_group(args: tuple[object, ...]) -> dist.ProcessGroup:
    if isinstance(args[-1], str):  # functional: the group by name, last
        resolve = _c10d._resolve_process_group  # type: ignore[attr-defined]
        group: dist.ProcessGroup = resolve(args[-1])  # type: ignore[arg-type]
        return group
    boxed = (arg for arg in args if isinstance(arg, ScriptObject))
    return dist.ProcessGroup.unbox(
        next(b for b in boxed if str(b._type()).endswith("ProcessGroup"))
    )


def _group(args: tuple[object, ...]) -> str:
    return str(_process_group(args).group_name)
