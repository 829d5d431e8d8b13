"""Linear layers whose products are computed in 8 bits, and Adam's state in 8 bits, by torchao."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import Linear

from hotlap.common.plain import PLAIN

Function = Callable[..., object]
MULTIPLE = 16
"""Of every side of a product: what cuBLAS asks of float8, and what fills an int8 tile."""
HEAD = 6
"""Outputs of a layer over its inputs from which on it is taken for a classifier's head; a
transformer's layers have 5.4 at most. In the gradient of a softmax over thousands of classes, one
number of a row or column is large and thousands are tiny: int8 rounds these to zero, and the loss
grew from 9.2 to 37 within 60 steps (8192 classes, on an H200)."""
SMALLEST_STATE = 4096
"""Elements of a parameter whose state torchao's own 8-bit optimizers quantise."""
BLOCK = 256
"""Elements that share one scale, as in torchao and bitsandbytes."""


def serves_fp8(layer: Linear, input: Tensor) -> bool:  # noqa: A002  # torch's name
    """Whether the layer's products have float8 units of their own."""
    return _fits(layer, input) and has_fp8(input.device)


def fp8_linear(_: Function) -> Function:
    """For `torch.nn.Linear.forward`: float8 in the forward and backward products."""

    def substitute(layer: Linear, input: Tensor) -> object:  # noqa: A002
        return fp8_product(layer, input)

    return substitute


def serves_int8(layer: Linear, input: Tensor) -> bool:  # noqa: A002
    """Whether the layer's products have int8 units of their own, and gradients that int8 holds."""
    is_head = layer.out_features > HEAD * layer.in_features
    return not is_head and _fits(layer, input) and has_int8(input.device)


def int8_linear(_: Function) -> Function:
    """For `torch.nn.Linear.forward`: int8 in the forward and backward products."""

    def substitute(layer: Linear, input: Tensor) -> object:  # noqa: A002
        return int8_product(layer, input)

    return substitute


def has_fp8(device: torch.device) -> bool:
    """Whether this device multiplies float8 matrices."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 9)


def has_int8(device: torch.device) -> bool:
    """Whether this device has int8 matrix products that Triton reaches."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)


def _fits(layer: Linear, x: Tensor) -> bool:
    """A plain linear layer that trains, whose products have sides that are multiples of 16."""
    if type(layer) is not Linear:  # of a parametrised one, to read the weight computes it anew
        return False
    weight = layer.weight
    sides = (*weight.shape, x.numel() // max(x.shape[-1], 1) if x.ndim else 0)
    return (
        type(weight) is torch.nn.Parameter
        and type(x) is Tensor
        and weight.requires_grad
        and torch.is_grad_enabled()
        and not torch.compiler.is_compiling()
        and weight.is_floating_point()
        and all(side and side % MULTIPLE == 0 for side in sides)
        and x.device == weight.device
    )


def _autocast(*tensors: Tensor) -> list[Tensor]:
    kind = tensors[0].device.type
    if not torch.is_autocast_enabled(kind):
        return list(tensors)
    return [tensor.to(torch.get_autocast_dtype(kind)) for tensor in tensors]


def fp8_product(layer: Linear, x: Tensor, *, emulate: bool = False) -> Tensor:
    """The layer's output, with one scale for each tensor; `emulate` computes it on any device."""
    from torchao.float8.float8_linear import matmul_with_hp_or_float8_args

    x, weight = _autocast(x, layer.weight)
    out: Tensor = matmul_with_hp_or_float8_args.apply(x, weight.t(), *_fp8_settings(emulate))
    return out if layer.bias is None else out + layer.bias.to(out.dtype)


@cache
def _fp8_settings(emulate: bool) -> tuple[object, object]:
    from torchao.float8 import Float8LinearConfig
    from torchao.float8.float8_linear import Float8Linear

    config = Float8LinearConfig(emulate=emulate)
    return Float8Linear(16, 16, config=config).linear_mm_config, config


def int8_product(layer: Linear, x: Tensor) -> Tensor:
    """The layer's output, with a scale for each row and column."""
    from torchao.prototype.quantized_training import int8_mixed_precision as training

    config = training.Int8MixedPrecisionTrainingConfig(module_swap=True)
    x, weight = _autocast(x, layer.weight)
    bias = None if layer.bias is None else layer.bias.to(x.dtype)
    product = training._Int8MixedPrecisionTrainingLinearFunction
    out: Tensor = product.apply(x.contiguous(), weight, bias, config)
    return out


# Adam's state


def eight_bit_state(_: Function) -> Function:
    """For `torch.optim.Adam._init_group`: makes the state of large parameters in 8 bits."""

    def substitute(optimizer: torch.optim.Optimizer, group: dict[str, Any], *_: object) -> object:
        if not (group["amsgrad"] or group["capturable"] or group["differentiable"]):
            for parameter in group["params"]:
                if _large(parameter) and not optimizer.state[parameter]:
                    optimizer.state[parameter].update(_state(parameter, group["fused"]))
        return NotImplemented  # torch's own collects it

    return substitute


def _large(parameter: Tensor) -> bool:
    plain = type(parameter) in PLAIN and parameter.is_floating_point()
    dense = parameter.grad is not None and not parameter.grad.is_sparse
    count = parameter.numel()
    return plain and dense and count >= SMALLEST_STATE and count % BLOCK == 0


def _state(parameter: Tensor, fused: bool | None) -> dict[str, Tensor]:
    """As torch makes it, but for the type of the two averages."""
    from torchao.optim.subclass_8bit import OptimState8bit

    def zeros(*, signed: bool) -> Tensor:
        made: Tensor = OptimState8bit.zeros(parameter.shape, signed, BLOCK, parameter.device)
        return made

    place = parameter.device if fused else "cpu"
    return {
        "step": torch.zeros((), dtype=torch.float32, device=place),
        "exp_avg": zeros(signed=True),
        "exp_avg_sq": zeros(signed=False),
    }


def eight_bit_adam(original: Function) -> Function:
    """For `torch.optim.adam.adam`: steps one parameter at a time, whose state is widened for it."""

    def substitute(*args: Any, **kwargs: object) -> object:
        (parameters, grads, averages, squares, most, steps), rest = args[:6], args[6:]
        if not any(_is_eight_bit(average) for average in averages):
            return NotImplemented
        plain = [i for i, average in enumerate(averages) if not _is_eight_bit(average)]
        together = (parameters, grads, averages, squares)
        if plain:
            lists = [[values[i] for i in plain] for values in (*together, steps)]
            original(*lists[:4], [], lists[4], *rest, **kwargs)
        for i in sorted(set(range(len(parameters))) - set(plain)):
            average, square = averages[i].dequantize(), squares[i].dequantize()
            average, square = (t.to(parameters[i].dtype) for t in (average, square))
            original([parameters[i]], [grads[i]], [average], [square], most, [steps[i]], *rest,
                     **kwargs)  # fmt: skip
            averages[i].copy_(average.float())
            squares[i].copy_(square.float())
        return None

    return substitute


def _is_eight_bit(tensor: Tensor) -> bool:
    return type(tensor).__name__ == "OptimState8bit"
