"""A layout's ranks as jobs of a dry run, and the answers as what a whole step comes to."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from hotlap.core.protocol import Document
from hotlap.parallel.parallelism import Parallelism
from hotlap.plan.emit import parallelism
from hotlap.plan.flops import Recompute
from hotlap.plan.module_model import Module
from hotlap.plan.parallel_layout import Layout
from hotlap.plan.shape import Shape

FIELDS = ("layers", "hidden", "heads", "vocabulary", "sequence", "gated", "bias", "positions")


@dataclass(frozen=True)
class Measured:
    """One rank of a pipeline stage, by dry run.

    `peak`: bytes, by owner in `owners`; `flops`, and bytes `sent` by 'collective dimension': of a
    whole step. `seconds`: what the dry run took.
    """

    stage: int
    peak: float
    owners: Mapping[str, float]
    flops: float
    sent: Mapping[str, float]
    seconds: float


def stages(layout: Layout) -> list[int]:
    """Pipeline stages that differ: first, second (the fullest of those in between), last."""
    return sorted({0, min(1, layout.pipeline - 1), layout.pipeline - 1})


def job(shape: Shape, layout: Layout, batch: int, stage: int) -> dict[str, object]:
    """What the dry run's process is asked.

    Stages before the one that is run are made one: a stage's memory depends on how many come after
    it. Micro-batches are as many as fill the pipeline, and one more.
    """
    single = replace(layout, replicate=1) if layout.ddp else layout
    spread = parallelism(single, batch // (layout.data // single.data))
    names = _names(shape, layout, stage)
    number, micro = len(names), _run(layout, batch, stage)
    if number > 1:
        spread = replace(
            spread, pipeline_parallel_degree=number, pipeline_parallel_microbatches=micro
        )
    tied = shape.tied and layout.pipeline == 1
    if isinstance(shape, Module):
        return _of_function(shape, layout, spread, micro)
    sizes = {name: getattr(shape, name) for name in FIELDS}
    sizes["head_dim"] = shape.head_width
    sizes |= {"kv_heads": shape.kv_heads or shape.heads, "ffn": shape.ffn_width, "tied": tied}
    return _of(layout, spread, micro) | {
        "sizes": sizes,
        "stage": min(stage, 1),
        "stages": names if number > 1 else [],
    }


def _of_function(
    module: Module, layout: Layout, spread: Parallelism, micro: int
) -> dict[str, object]:
    """The user's own model."""
    built = {"sizes": None, "stage": 0, "function": module.function, "sequence": module.given}
    return _of(layout, spread, micro) | built


def _of(layout: Layout, spread: Parallelism, micro: int) -> dict[str, object]:
    return {
        "parallelism": asdict(spread),
        "micro_batch": layout.micro_batch,
        "micro_batches": micro,
        "dtype": layout.precision.dtype,
        "recompute": layout.recompute is Recompute.FULL,
        "buckets": layout.ddp,
        "autocast": layout.autocast,
    }


def measured(shape: Shape, layout: Layout, batch: int, stage: int, answer: Document) -> Measured:
    """What the answer comes to over all micro-batches of a step."""
    micro, run = layout.micro_batches(batch), _run(layout, batch, stage)
    times = micro / run
    message = shape.sequence * layout.micro_batch * shape.hidden / layout.tensor
    buffers = (stage > 0) + (stage < layout.pipeline - 1) if layout.pipeline > 1 else 0
    more = (micro - run) * buffers * message * layout.precision.bytes.passes
    owners = {**answer["owners"], "activations": answer["owners"]["activations"] + more}
    once = layout.pipeline > 1  # then weights are gathered, and gradients reduced, once a step
    sent = {
        name: size * (1 if once and name.endswith((" shard", " replicate")) else times)
        for name, size in answer["sent"].items()
    }
    return Measured(
        stage, answer["peak"] + more, owners, answer["flops"] * times, sent, answer["seconds"]
    )


def _run(layout: Layout, batch: int, stage: int) -> int:
    """Micro-batches that are run."""
    after = layout.pipeline - stage + min(stage, 1)
    wanted = after + 1 if layout.pipeline > 1 else 2
    return min(wanted, layout.micro_batches(batch))


def _names(shape: Shape, layout: Layout, stage: int) -> list[list[str]]:
    """Layers of each stage, those before the one that is run put together."""
    each = shape.layers // layout.pipeline
    parts = [
        [f"layers.{i}" for i in range(s * each, (s + 1) * each)] for s in range(layout.pipeline)
    ]
    before = [name for part in parts[:stage] for name in part]
    merged = [before, *parts[stage:]] if stage else parts
    merged[0] = ["tok", *(["pos"] if shape.positions else []), *merged[0]]
    merged[-1] = [*merged[-1], "norm", "head"]
    return merged
