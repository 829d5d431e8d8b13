"""Structured pruning by torch-pruning: whole channels and hidden units go, the rest stays dense."""

import copy
import math
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node
from torch.nn.modules.conv import _ConvNd

from hotlap.common.extras import need
from hotlap.optim.schedules import factor

STRUCTURES = ("channels", "hidden")
_HALVINGS = 10  # of the interval in which the ratio that meets the target lies

_NAMES = "Relu Gelu Silu Elu LeakyRelu Tanh Hardswish Mish Sigmoid View UnsafeView ReshapeAlias"
_ELEMENT_WISE = frozenset(f"{name}Backward0" for name in _NAMES.split())


class PruningError(RuntimeError):
    """The model cannot be pruned; the message says why."""


def prune(
    model: nn.Module,
    example_inputs: Sequence[object],
    parameters: float,
    *,
    structure: str = "auto",
    round_to: int = 4,
) -> nn.Module:
    """A copy of the model with at most `parameters` times its parameters.

    Removes the channels with the smallest weights (torch-pruning's group magnitude), so it needs
    fine-tuning afterwards. What the model returns keeps its shape.

    Args:
        model: any module that `example_inputs` run through; it is left as it is.
        example_inputs: the positional arguments of its forward pass.
        parameters: the share of parameters to keep, between 0 and 1.
        structure: "channels" prunes every layer but the last; "hidden" only the units between two
            linear layers, which suits transformers; "auto" takes the first that works.
        round_to: widths stay a multiple of this.

    Raises:
        PruningError: no structure of it can be removed, or not as much.
        MissingPackageError: torch-pruning is not installed.
    """
    need("torch_pruning")
    if not 0 < parameters < 1:
        raise ValueError(f"parameters is {parameters}; it must lie between 0 and 1")
    reasons = []
    for kind in STRUCTURES if structure == "auto" else (structure,):
        try:
            return _to_target(model, tuple(example_inputs), parameters, kind, round_to)
        except PruningError as error:
            reasons.append(f"{kind}: {error}")
    raise PruningError("; ".join(reasons))


def pruning_schedule(step: int, *, steps: int, final: float, begin: int = 0) -> float:
    """The sparsity of a step, rising from 0 at `begin` to `final` over `steps` steps.

    final (1 - (1 - x)^3), Zhu and Gupta 2017, "To prune, or not to prune": most goes early, while
    the network can still make up for it. By the decay of hotlap.optim's schedules.
    """
    left = factor(max(step - begin, 0), warmup=0, steps=steps, end=0.0, shape=_cubic)
    return final * (1 - left)


def _cubic(x: float) -> float:
    return float((1 - x) ** 3)


def parameter_count(model: nn.Module) -> int:
    """Parameters, shared ones counted once."""
    return sum(p.numel() for p in model.parameters())


def _to_target(model: nn.Module, inputs: tuple[object, ...], share: float, kind: str,
               round_to: int) -> nn.Module:  # fmt: skip
    """Halve the interval of ratios until the least that meets the target is known."""
    shape = _output_shape(model, inputs)
    limit, best = share * parameter_count(model), None
    low, high = 0.0, 1 - math.ulp(1.0)
    for _ in range(_HALVINGS):
        ratio = (low + high) / 2
        pruned = _pruned(model, inputs, ratio, kind, round_to)
        if _output_shape(pruned, inputs) != shape:
            raise PruningError("the shape of the output would change")
        if parameter_count(pruned) <= limit:
            best, high = pruned, ratio
        else:
            low = ratio
    if best is None:
        raise PruningError(f"it cannot be brought to {share:g} of its parameters")
    return best


def _pruned(
    model: nn.Module, inputs: tuple[object, ...], ratio: float, kind: str, round_to: int
) -> nn.Module:
    tp = need("torch_pruning")
    changed = copy.deepcopy(model).eval()
    try:
        pruner = tp.pruner.BasePruner(
            changed,
            inputs,
            importance=tp.importance.GroupMagnitudeImportance(p=2),
            pruning_ratio=ratio,
            ignored_layers=_kept_layers(changed, inputs, kind),
            round_to=round_to,
            forward_fn=lambda model, given: model(*given),
            output_transform=tensors_of,
        )
        pruner.step()
    except PruningError:
        raise
    except Exception as error:  # torch-pruning asserts and indexes its way through the graph
        raise PruningError(f"torch-pruning failed ({type(error).__name__}: {error})") from error
    return changed.train(model.training)


def _kept_layers(model: nn.Module, inputs: tuple[object, ...], kind: str) -> list[nn.Module]:
    """The layers whose outputs must keep their width."""
    weighted = [m for m in model.modules() if isinstance(m, nn.Linear | _ConvNd)]
    if kind == "channels":
        return last_layers(model, inputs)
    if kind != "hidden":
        raise ValueError(f"structure is {kind!r}; it must be 'auto' or one of {STRUCTURES}")
    found = hidden_layers(model, inputs)
    if not found:
        raise PruningError("no two linear layers follow one another")
    return [layer for layer in weighted if layer not in found]


def hidden_layers(model: nn.Module, inputs: Sequence[object]) -> list[nn.Module]:
    """The linear layers that only another linear layer reads, through element-wise functions.

    Found in the graph of gradients, so that the model need not be traceable.
    """
    owners = _owners(model)
    nodes, readers = _graph(model, inputs)
    found = []
    for node in nodes:
        if not any(isinstance(owners.get(id(p)), nn.Linear) for p in _parameters_at(node)):
            continue
        for behind, _ in node.next_functions:
            while behind and type(behind).__name__ in _ELEMENT_WISE and readers[behind] == 1:
                behind = behind.next_functions[0][0]  # noqa: PLW2901
            if behind is None:
                continue
            layers = [owners.get(id(p)) for p in _parameters_at(behind)]
            product = type(behind).__name__ in {"AddmmBackward0", "MmBackward0"}
            if product and readers[behind] == 1:
                found += [layer for layer in layers if isinstance(layer, nn.Linear)]
    return list(dict.fromkeys(found))


def _graph(model: nn.Module, inputs: Sequence[object]) -> tuple[list[Node], Counter[Node]]:
    """Every node behind the outputs, and how many nodes read each."""
    with torch.enable_grad():
        outputs = tensors_of(model(*inputs))
    nodes: dict[Node, None] = {}
    waiting: list[Node] = [tensor.grad_fn for tensor in outputs if tensor.grad_fn is not None]
    readers: Counter[Node] = Counter()
    while waiting:
        node = waiting.pop()
        if node in nodes:
            continue
        nodes[node] = None
        behind = [after for after, _ in node.next_functions if after is not None]
        readers.update(behind)
        waiting += behind
    return list(nodes), readers


def _owners(model: nn.Module) -> dict[int, nn.Module]:
    kinds = (nn.Linear, _ConvNd, nn.Embedding)
    return {
        id(p): m for m in model.modules() if isinstance(m, kinds)
        for p in m.parameters(recurse=False)
    }  # fmt: skip


def last_layers(model: nn.Module, inputs: Sequence[object]) -> list[nn.Module]:
    """The weighted layers whose outputs the model returns without another weighted layer behind.

    Found by walking the graph of gradients from the outputs to the first matrix products.
    """
    owners = _owners(model)
    with torch.enable_grad():
        nodes = [t.grad_fn for t in tensors_of(model(*inputs)) if t.grad_fn is not None]
    found, seen = [], set()
    while nodes:
        node = nodes.pop()
        if node in seen:
            continue
        seen.add(node)
        reached = [owners[id(p)] for p in _parameters_at(node) if id(p) in owners]
        found += reached
        if not reached:
            nodes += [after for after, _ in node.next_functions if after is not None]
    return list(dict.fromkeys(found))


def _parameters_at(node: Node) -> list[Tensor]:
    """The parameters that an operator reads, directly or transposed."""
    inputs = [after for after, _ in node.next_functions if after is not None]
    inputs += [
        behind
        for after in inputs
        if type(after).__name__ in {"TBackward0", "TransposeBackward0"}
        for behind, _ in after.next_functions
        if behind is not None
    ]
    return [after.variable for after in inputs if hasattr(after, "variable")]


def tensors_of(value: object) -> list[Tensor]:
    """The tensors in what a model returned: a tensor, or tuples, lists and mappings of them."""
    if isinstance(value, Tensor):
        return [value]
    if hasattr(value, "values") and callable(value.values):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [tensor for entry in value for tensor in tensors_of(entry)]
    return []


def _output_shape(model: nn.Module, inputs: tuple[object, ...]) -> list[torch.Size]:
    training = model.training
    try:
        with torch.no_grad():
            return [tensor.shape for tensor in tensors_of(model.eval()(*inputs))]
    except (RuntimeError, ValueError, TypeError) as error:
        raise PruningError(f"the forward pass fails ({error})") from error
    finally:
        model.train(training)
