"""Which layers follow one another with nothing else reading the tensor between them.

Read from `torch.fx` graphs. A module that cannot be traced (control flow by value) is left out and
its children are traced on their own; in a `Sequential` the order is known all the same.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import fx, nn

BETWEEN = (
    nn.ReLU, nn.ReLU6, nn.GELU, nn.SiLU, nn.ELU, nn.LeakyReLU, nn.Tanh, nn.Hardswish, nn.Mish,
    nn.Dropout, nn.Identity,
)  # fmt: skip
"""Element-wise modules whose value at zero is zero."""

ZERO_AT_ZERO = frozenset(
    {"relu", "relu_", "gelu", "silu", "elu", "leaky_relu", "tanh", "hardswish", "mish", "dropout"}
)


@dataclass(frozen=True)
class Chain:
    """Two modules, by name: the output of `first` is read by `second` and by nothing else."""

    first: str
    second: str


def chains(model: nn.Module, *, through: bool = False) -> list[Chain]:
    """Pairs of leaf modules, the second of which alone reads what the first returns.

    Modules that are called more than once, are known by two names, or carry forward hooks are
    left out: to change one would change more than the pair.

    Args:
        model: any module; it is not run.
        through: whether element-wise operators with f(0) = 0 may stand between the two.
    """
    modules = dict(model.named_modules())
    names = Counter(id(m) for _, m in model.named_modules(remove_duplicate=False))
    found: dict[Chain, None] = {}
    for prefix, graph in _graphs(model, ""):
        calls = Counter(node.target for node in graph.nodes if node.op == "call_module")
        for node in graph.nodes:
            if node.op != "call_module":
                continue
            reader = _only_reader(node, modules, prefix, through=through)
            if reader is None or reader.op != "call_module":
                continue
            pair = Chain(prefix + str(node.target), prefix + str(reader.target))
            once = calls[node.target] == calls[reader.target] == 1
            if once and all(_plain(modules.get(name), names) for name in vars(pair).values()):
                found[pair] = None
    return list(found)


def _plain(module: nn.Module | None, names: Counter[int]) -> bool:
    return (
        module is not None
        and names[id(module)] == 1
        and not module._forward_hooks
        and not module._forward_pre_hooks
        and not hasattr(module, "parametrizations")
    )


def _only_reader(
    node: fx.Node, modules: dict[str, nn.Module], prefix: str, *, through: bool
) -> fx.Node | None:
    while len(node.users) == 1:
        reader = next(iter(node.users))
        if reader.args[:1] != (node,) or node in reader.args[1:] or node in reader.kwargs.values():
            return None
        if not (through and _element_wise(reader, modules, prefix)):
            return reader
        node = reader
    return None


def _element_wise(node: fx.Node, modules: dict[str, nn.Module], prefix: str) -> bool:
    if node.op == "call_module":
        return isinstance(modules.get(prefix + str(node.target)), BETWEEN)
    name = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
    return name in ZERO_AT_ZERO


class _Tracer(fx.Tracer):
    """`whole`: the children are leaves, too, whatever they are."""

    def __init__(self, *, whole: bool) -> None:
        super().__init__()
        self._whole = whole

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return self._whole or super().is_leaf_module(m, module_qualified_name)


def _graphs(module: nn.Module, prefix: str) -> Iterator[tuple[str, fx.Graph]]:
    """The graph of the module, or else those of its children, each with its prefix."""
    if not any(True for _ in module.children()):
        return
    graph = _traced(module, whole=False)
    if graph is not None:
        yield prefix, graph
        return
    if isinstance(module, nn.Sequential):
        graph = _traced(module, whole=True)
        if graph is not None:
            yield prefix, graph
    for name, child in module.named_children():
        yield from _graphs(child, f"{prefix}{name}.")


def _traced(module: nn.Module, *, whole: bool) -> fx.Graph | None:
    state: torch.Tensor = torch.random.get_rng_state()
    try:
        return _Tracer(whole=whole).trace(module)
    except Exception:  # a tracer may fail in any way in a program's own forward
        return None
    finally:
        torch.random.set_rng_state(state)
