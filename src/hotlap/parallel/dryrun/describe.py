"""Facts of a model that the user's function builds: counts, shapes, and what a step of it takes."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from torch import nn

from hotlap.parallel.dryrun.dryrun_job import DryRunResult, Job
from hotlap.parallel.dryrun.fake import dry_run
from hotlap.parallel.dryrun.given import given
from hotlap.parallel.dryrun.model_source import ModelSource
from hotlap.parallel.parallelism import Parallelism

_HEADS = ("num_heads", "n_heads", "n_head", "num_attention_heads", "nhead", "heads")
_WIDTHS = ("head_dim", "head_size", "head_width", "d_head")
_KEYS = ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "kv_heads")


@dataclass(frozen=True)
class Facts:
    """What is known of a model without being told.

    `parameters`: exact; of one of `blocks` layers of class `block`; `rest`: beside the layers.
    `matrices`: (out, in) of the linear layers of one block. `embeddings`: (rows, columns).
    `heads`, `keys`: numbers of heads, as attributes of the model or its `config` say; 0: unknown.
    `config`: a Hugging Face model's, as a table. `one`, `two`: dry runs of one rank, two micro-
    batches of one row and of two.
    """

    name: str
    parameters: int
    blocks: int
    block: str
    block_parameters: int
    matrices: tuple[tuple[int, int], ...]
    embeddings: tuple[tuple[int, int], ...]
    heads: int
    keys: int
    config: dict[str, object] | None
    one: DryRunResult
    two: DryRunResult


def describe(function: str, sequence: int, dtype: str) -> dict[str, object]:
    """Build the model and run it; the facts as a plain table.

    Raises:
        ValueError: the function, or the model it returns, cannot be used.
    """
    source = given(function, sequence)
    model = source.model
    layers = [model.get_submodule(name) for name in source.blocks]
    runs = [_run(function, sequence, dtype, rows) for rows in (1, 2)]
    facts = Facts(
        name=type(model).__name__,
        parameters=sum(p.numel() for p in model.parameters()),
        blocks=len(layers),
        block=type(layers[0]).__name__ if layers else "",
        block_parameters=sum(p.numel() for p in layers[0].parameters()) if layers else 0,
        matrices=tuple(_matrices(layers[0])) if layers else (),
        embeddings=tuple(_embeddings(source)),
        heads=_heads(model, source),
        keys=_attribute(model, _KEYS),
        config=_config(model),
        one=runs[0],
        two=runs[1],
    )
    return {**asdict(facts), "sequence": source.sequence}


def _run(function: str, sequence: int, dtype: str, rows: int) -> DryRunResult:
    job = Job(None, Parallelism(), 0, rows, 2, dtype=dtype, function=function, sequence=sequence)
    try:
        return dry_run(job)
    except Exception as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ValueError(
            f"{function}: a step of the model on fake tensors failed: {why}; it is called as "
            "model(*inputs), with inputs that the function can return beside the module"
        ) from error


def _matrices(block: nn.Module) -> Iterator[tuple[int, int]]:
    for module in block.modules():
        weight = getattr(module, "weight", None)
        if weight is None or weight.dim() != 2:
            continue
        turned = type(module).__name__ == "Conv1D"  # Hugging Face's, stored the other way round
        yield (weight.shape[1], weight.shape[0]) if turned else (weight.shape[0], weight.shape[1])


def _embeddings(source: ModelSource) -> Iterator[tuple[int, int]]:
    """Of tokens and positions, as modules or as plain parameters beside the layers."""
    inside = {
        id(p) for name in source.blocks for p in source.model.get_submodule(name).parameters()
    }
    linear = {
        id(p) for m in source.model.modules() if isinstance(m, nn.Linear) for p in m.parameters()
    }
    tables = {id(m.weight) for m in source.model.modules() if isinstance(m, nn.Embedding)}
    for p in source.model.parameters():
        if id(p) in inside or (id(p) in linear and id(p) not in tables):
            continue
        shape = [size for size in p.shape if size != 1]
        if len(shape) == 2:
            yield (shape[0], shape[1])


def _heads(model: nn.Module, source: ModelSource) -> int:
    """As an attribute says, or the width of one."""
    number, width = _attribute(model, _HEADS), _attribute(model, _WIDTHS)
    if number or not width:
        return number
    return max((columns for _, columns in _embeddings(source)), default=0) // width


def _attribute(model: nn.Module, names: tuple[str, ...]) -> int:
    places = (*model.modules(), getattr(model, "config", None))
    for place in places:
        for name in names:
            value = getattr(place, name, None)
            if isinstance(value, int) and value > 0:
                return value
    return 0


def _config(model: nn.Module) -> dict[str, object] | None:
    config: object = getattr(model, "config", None)
    if not hasattr(config, "to_dict"):
        return None
    kept = (str, int, float, bool, type(None))
    table = config.to_dict()
    return {name: value for name, value in table.items() if isinstance(value, kept)}
