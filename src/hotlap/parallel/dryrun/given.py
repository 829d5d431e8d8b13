"""A model that the user's function builds."""

import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from hotlap.common.importing import WorksAtImportError, import_users
from hotlap.common.recomputing import repeated
from hotlap.parallel.dryrun.model_source import ModelSource, cross_entropy, tokens

Inputs = Callable[[int], tuple[Tensor, ...]]
"""The model's positional arguments for so many rows."""


def given(name: str, sequence: int) -> ModelSource:
    """Call `module:function` on the meta device.

    The function takes nothing and returns a module, or a module and a tuple of example inputs,
    whose first dimension is the batch; of token ids among them the second is the sequence, which
    `sequence` replaces where it is not 0. A module alone is fed token ids of length `sequence`, or
    if that is 0 of the length it is made for.

    Raises:
        ValueError: it cannot be imported or called, or returns something else.
    """
    made = _called(name)
    model, example = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(model, nn.Module):
        raise ValueError(  # noqa: TRY004
            f"{name} returned {type(model).__name__}: an nn.Module, or (module, inputs), is needed"
        )
    if example is None and vocabulary(model) == 0:
        raise ValueError(
            f"{name} returned a {type(model).__name__} without an embedding: return (module, "
            "inputs), with inputs a tuple of tensors, batch first"
        )
    words = vocabulary(model)
    length = length_of(example)
    inputs = _inputs(example, sequence or length or longest(model), length)
    return ModelSource(
        model, names(model), inputs, _loss(words),
        sequence=(sequence or length) if example is not None else sequence or longest(model),
    )  # fmt: skip


def length_of(example: object) -> int:
    """Tokens a sequence of example inputs; 0 where the first of them is no table of token ids."""
    first = next(_tensors(example), None)
    if first is None or first.is_floating_point() or first.is_complex() or first.dim() != 2:
        return 0
    return int(first.shape[1])


def vocabulary(model: nn.Module) -> int:
    """Rows of the largest embedding; 0 without one."""
    sizes = (m.num_embeddings for m in model.modules() if isinstance(m, nn.Embedding))
    return max(sizes, default=0)


def longest(model: nn.Module) -> int:
    """The sequence a model is made for: as its config or its second embedding says, or 1024."""
    config = getattr(model, "config", None)
    for name in ("max_position_embeddings", "n_positions", "block_size", "max_seq_len"):
        if isinstance(getattr(config, name, None), int):
            return int(getattr(config, name))
    tables = sorted(m.num_embeddings for m in model.modules() if isinstance(m, nn.Embedding))
    return tables[-2] if len(tables) > 1 else 1024


def names(model: nn.Module) -> tuple[str, ...]:
    """Names of the largest group of layers of one class that repeat."""
    blocks = repeated(model)
    kinds = {type(block) for block in blocks}
    most = max(kinds, key=lambda kind: sum(type(b) is kind for b in blocks), default=None)
    chosen = {id(block) for block in blocks if type(block) is most}
    return tuple(name for name, module in model.named_modules() if id(module) in chosen)


def _called(name: str) -> object:
    module, _, function = name.partition(":")
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - a path for imports is text
    try:
        make = getattr(import_users(module), function)
        with torch.device("meta"):
            return make()
    except WorksAtImportError as error:
        raise ValueError(f"{error}; {error.hint}") from None
    except Exception as error:
        raise ValueError(f"{name} failed: {_last(error)}") from error


def _last(error: BaseException) -> str:
    """What went wrong, and the innermost line that is no library's."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if f.filename != __file__ and "importlib" not in f.filename]
    own = [f for f in own if "site-packages" not in f.filename] or own
    where = f" ({own[-1].filename}:{own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {error}{where}"


def _inputs(example: object, sequence: int, length: int) -> Inputs:
    if example is None:
        return lambda rows: (tokens(rows, sequence),)
    shapes = [
        (tuple(sequence if n == length else n for n in t.shape[1:]), t.dtype)
        for t in _tensors(example)
    ]
    return lambda rows: tuple(torch.zeros(rows, *shape, dtype=kind) for shape, kind in shapes)


def _tensors(tree: object) -> Iterator[Tensor]:
    return (leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor))


def _loss(words: int) -> Callable[[object, tuple[Tensor, ...]], Tensor]:
    """Cross entropy of logits over the vocabulary; of any other output the sum."""

    def loss(out: object, inputs: tuple[Tensor, ...]) -> Tensor:
        own = getattr(out, "loss", None)
        if isinstance(own, Tensor):
            return own
        held = list(out.values()) if isinstance(out, Mapping) else out  # Hugging Face's outputs
        first = next(t for t in _tensors(held) if t.is_floating_point())
        ids = inputs[0]
        if first.shape[-1] == words and first.shape[:-1] == ids.shape:
            return cross_entropy(first, ids)
        return first.float().sum()

    return loss
