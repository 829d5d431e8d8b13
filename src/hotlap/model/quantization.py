"""Weights of fewer bits, by torchao; N:M sparsity."""

import copy
import logging
import warnings
from importlib.util import find_spec
from types import ModuleType

import torch
from torch import Tensor, nn
from torch.nn.utils import prune as masks

from hotlap.common.extras import need

PRECISIONS = ("int8", "int8_dynamic", "int4", "float8", "float8_dynamic")
_GROUP = 32  # weights that share a scale in int4


def quantize(model: nn.Module, precision: str = "int8") -> nn.Module:
    """A copy of the model with the weights of its linear layers and embeddings quantised.

    Args:
        model: any module, in evaluation mode; it is left as it is.
        precision: "int8": weights alone, a scale for each row. "int8_dynamic": activations too,
            their scale found as they pass. "int4": weights in groups of 32 (CUDA, takes mslk).
            "float8": weights alone; "float8_dynamic": activations too (compute capability 8.9).
            Embeddings have int8 weights in all of them.

    Raises:
        ValueError: the precision is unknown or not to be had on this machine, or the model has
            neither a linear layer nor an embedding.
        MissingPackageError: torchao is not installed.
    """
    _check_hardware(model, precision)
    ao = torchao_quantization()
    changed = copy.deepcopy(model).eval()
    layers = [m for m in changed.modules() if type(m) in {nn.Linear, nn.Embedding}]
    if not layers:
        raise ValueError("the model has no linear layer or embedding to quantise")
    ao.quantize_(changed, _config(precision), filter_fn=_fits(precision))
    by_row = ao.granularity.PerAxis(0)
    rows = ao.IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=by_row)
    ao.quantize_(changed, rows, filter_fn=lambda module, _: type(module) is nn.Embedding)
    return changed


def prepare_qat(model: nn.Module, precision: str = "int8_dynamic") -> None:
    """Let the model, in place, train with weights rounded as `precision` would round them.

    Quantisation-aware training: the forward pass rounds, the gradient passes straight through.
    Call it before fine-tuning, and `convert_qat` after it.
    """
    _qat(model, precision, "prepare")


def convert_qat(model: nn.Module, precision: str = "int8_dynamic") -> nn.Module:
    """The trained model of `prepare_qat` with plain layers again, and then quantised."""
    plain = copy.deepcopy(model)
    for name, module in list(plain.named_modules()):
        if isinstance(module, nn.Linear) and type(module).__name__ == "FakeQuantizedLinear":
            plain.set_submodule(name, _plain(module))
    return quantize(plain, precision)


def sparsify(model: nn.Module, n: int = 2, m: int = 4) -> list[str]:
    """Zero all but the `n` largest of each `m` weights in a row, in place, and keep them zero.

    Linear layers whose width is a multiple of `m` get a mask (`torch.nn.utils.prune`) that holds
    while they are fine-tuned; `finish_sparsity` makes it permanent. 2:4 is what sparse tensor
    cores multiply at up to twice the rate; elsewhere it saves nothing by itself.

    Returns:
        The names of the layers that are sparse now.
    """
    if not 0 < n < m:
        raise ValueError(f"{n}:{m} is no sparsity; it takes 0 < n < m")
    changed = []
    for name, layer in model.named_modules():
        if type(layer) is nn.Linear and layer.in_features % m == 0:
            mask = n_of_m(layer.weight.detach(), n, m)
            masks.custom_from_mask(layer, "weight", mask)  # type: ignore[no-untyped-call]
            changed.append(name)
    return changed


def finish_sparsity(model: nn.Module, *, semi_structured: bool = False) -> None:
    """Make the masks of `sparsify` permanent, in place.

    Args:
        model: a model that `sparsify` was called on.
        semi_structured: compress 2:4 weights for sparse tensor cores (CUDA, 16-bit; torchao).
    """
    for layer in model.modules():
        if masks.is_pruned(layer) and hasattr(layer, "weight_mask"):
            masks.remove(layer, "weight")  # type: ignore[no-untyped-call]
    if semi_structured:
        sparsity = need("torchao.sparsity")
        sparsity.sparsify_(model, sparsity.SemiSparseWeightConfig())


def n_of_m(weight: Tensor, n: int, m: int) -> Tensor:
    """Return a mask of ones and zeros: the n largest magnitudes of each m neighbours in a row."""
    groups = weight.abs().reshape(-1, m)
    kept = torch.zeros_like(groups).scatter_(1, groups.topk(n, dim=1).indices, 1.0)
    return kept.reshape(weight.shape)


def torchao_quantization() -> ModuleType:
    """`torchao.quantization`, imported without the notices about kernels that do not load here."""
    logger = logging.getLogger("torchao")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            need("torchao.quantization.granularity")
            return need("torchao.quantization")
    finally:
        logger.setLevel(level)


def _check_hardware(model: nn.Module, precision: str) -> None:
    """Say in plain words what torchao would fail at later, or with another package's name."""
    device = next((p.device.type for p in model.parameters()), "cpu")
    if precision in {"int4", "float8_dynamic"} and device == "cpu":
        least = "" if precision == "int4" else " of compute capability 8.9 or higher"
        raise ValueError(f"{precision} is for a model on a GPU{least}; int8 runs on the CPU")
    if precision == "int4" and find_spec("mslk") is None:
        raise ValueError("int4 takes the package mslk; install it with pip install mslk")


def _config(precision: str) -> object:
    ao = torchao_quantization()
    known = {
        "int8": ao.Int8WeightOnlyConfig,
        "int8_dynamic": ao.Int8DynamicActivationInt8WeightConfig,
        "int4": lambda: ao.Int4WeightOnlyConfig(group_size=_GROUP),
        "float8": ao.Float8WeightOnlyConfig,
        "float8_dynamic": ao.Float8DynamicActivationFloat8WeightConfig,
    }
    if precision not in known:
        raise ValueError(f"precision is {precision!r}; it must be one of {', '.join(PRECISIONS)}")
    return known[precision]()


def _fits(precision: str) -> object:
    group = _GROUP if precision == "int4" else 1
    return lambda module, _: type(module) is nn.Linear and module.in_features % group == 0


def _qat(model: nn.Module, precision: str, step: str) -> None:
    qat = need("torchao.quantization.qat")
    torchao_quantization()
    fake = qat.IntxFakeQuantizeConfig
    bits = vars(torch)["int4"] if precision == "int4" else torch.int8
    if precision not in {"int8", "int8_dynamic", "int4"}:
        raise ValueError(
            f"no quantisation-aware training for {precision!r}; int8, int8_dynamic, int4"
        )
    grouped = {"group_size": _GROUP} if precision == "int4" else {"granularity": "per_channel"}
    activation = (
        fake(torch.int8, "per_token", is_symmetric=False) if precision == "int8_dynamic" else None
    )
    config = qat.QATConfig(
        activation_config=activation, weight_config=fake(bits, **grouped), step=step
    )
    torchao_quantization().quantize_(model, config, filter_fn=_fits(precision))


def _plain(layer: nn.Linear) -> nn.Linear:
    made = nn.Linear(1, 1, bias=False, device="meta")
    made.in_features, made.out_features = layer.in_features, layer.out_features
    made.weight, made.bias = layer.weight, layer.bias
    return made
