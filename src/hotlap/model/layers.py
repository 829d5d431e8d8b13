"""What each layer of a model costs in one forward pass: FLOPs and memory accesses."""

import weakref
from math import prod

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

from hotlap.model.guidelines import Offence, offences
from hotlap.model.operators import Count, Row

WEIGHTED = (nn.Linear, _ConvNd)
Readers = dict[int, tuple[weakref.ref[object], list[nn.Module]]]
"""By id of a tensor: the tensor, and the layers that read it."""


def layer_costs(model: nn.Module, *inputs: object, **keywords: object) -> list[Row]:
    """Run the model once without gradients and count what each module does itself.

    Returns:
        A row for each module that ran an operator, in the order of `named_modules`. `flops`:
        by torch's own formulas, 2 for each multiply-add. `traffic`: bytes that its operators read
        and write, every operand counted once for each operator; `elements`: the same in elements.
    """
    rows = {
        module: Row(name or "(root)", type(module).__name__, "", own_parameters(module))
        for name, module in model.named_modules()
    }
    running: list[nn.Module] = []
    readers: Readers = {}

    def before(module: nn.Module, args: tuple[object, ...]) -> None:
        running.append(module)
        if args and isinstance(module, WEIGHTED):
            note_reader(readers, module, args[0])

    def after(module: nn.Module, _: object, result: object) -> None:
        running.pop()
        rows[module].calls += 1
        rows[module].shape = weighted_shape(module, result)

    handles = [
        handle
        for module in rows
        for handle in (
            module.register_forward_pre_hook(before),
            module.register_forward_hook(after),
        )
    ]
    try:
        with torch.no_grad(), Count(lambda: rows[running[-1]] if running else None):
            model(*inputs, **keywords)
    finally:
        for handle in handles:
            handle.remove()
    for _, layers in readers.values():
        for layer in layers:
            rows[layer].shares_input = len(layers)
    return [row for row in rows.values() if row.operators]


def broken_guidelines(model: nn.Module, *inputs: object, **keywords: object) -> list[Offence]:
    """The layers that break ShuffleNetV2's guidelines most, with what they move in vain.

    See `hotlap.model.guidelines`, whose four functions can also be called with one row each.
    """
    return offences(vars(row) for row in layer_costs(model, *inputs, **keywords))


def own_parameters(module: nn.Module) -> int:
    """Parameters of the module without those of its submodules."""
    return sum(p.numel() for p in module.parameters(recurse=False))


def note_reader(
    readers: dict[int, tuple[weakref.ref[object], list[nn.Module]]],
    layer: nn.Module,
    tensor: object,
) -> None:
    """Remember that the layer reads this tensor; an id is trusted while its tensor lives."""
    if not isinstance(tensor, torch.Tensor):
        return
    known = readers.get(id(tensor))
    if known is None or known[0]() is not tensor:
        known = readers[id(tensor)] = (weakref.ref(tensor), [])
    known[1].append(layer)


def weighted_shape(layer: object, result: object) -> dict[str, int]:
    """Channels in and out, groups, kernel size, and the positions of the output, batch included."""
    if not isinstance(layer, WEIGHTED) or not isinstance(result, torch.Tensor):
        return {}
    if isinstance(layer, nn.Linear):
        sizes = {"in": layer.in_features, "out": layer.out_features, "groups": 1, "kernel": 1}
    else:
        sizes = {"in": layer.in_channels, "out": layer.out_channels, "groups": layer.groups}
        sizes["kernel"] = prod(layer.kernel_size)
    return {**sizes, "positions": result.numel() // max(1, sizes["out"])}
