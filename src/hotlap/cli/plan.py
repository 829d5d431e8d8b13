"""`hotlap plan`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hotlap.cli.common import (
    NEGATIVE,
    OK,
    Choice,
    console,
    headed,
    json_option,
    print_json,
    quiet_option,
    status,
)
from hotlap.cli.reports import keep

if TYPE_CHECKING:
    from hotlap.plan.cluster import Cluster
    from hotlap.plan.layout_search import Plans
    from hotlap.plan.number_formats import Precision
    from hotlap.plan.shape import Shape
    from hotlap.plan.verify import Verified

MOST_KEPT = 10
"""Layouts of each kind in the report; `--json` prints all of them."""


@click.command()
@click.option("--batch", required=True, type=click.IntRange(1), help="Sequences a step, in all.")
@click.option("--gpus", required=True, type=click.IntRange(1), help="GPUs in the cluster.")
@click.option(
    "--gpu",
    type=Choice(["a100", "h100", "h200"]),
    default="h100",
    show_default=True,
    help="Kind of GPU: memory, peak and links.",
)
@click.option(
    "--node", type=click.IntRange(1), default=8, show_default=True, help="GPUs that share a node."
)
@click.option("--memory", type=click.FloatRange(1.0), help="GiB a GPU, if not the preset's.")
@click.option("--peak", type=click.FloatRange(0.001), help="TFLOP/s a GPU, if not the preset's.")
@click.option(
    "--inside", type=click.FloatRange(0.001), help="GB/s a GPU within a node, one direction."
)
@click.option(
    "--outside", type=click.FloatRange(0.001), help="GB/s a GPU between nodes, one direction."
)
@click.option(
    "--achieved",
    type=click.FloatRange(0.01, 1.0),
    default=0.5,
    show_default=True,
    help="Share of the peak that your kernels reach on one GPU: measure it.",
)
@click.option("--sequence", type=click.IntRange(1), help="Tokens a sequence, if not the model's.")
@click.option(
    "--precision",
    type=Choice(["mixed", "bf16", "fp32"]),
    default="mixed",
    show_default=True,
    help="Weights in float32 and passes in bfloat16, or all in one format.",
)
@click.option("--tensor", type=click.IntRange(1), help="Only this degree of tensor parallelism.")
@click.option("--pipeline", type=click.IntRange(1), help="Only this number of pipeline stages.")
@click.option("--shard", type=click.IntRange(1), help="Only this degree of FSDP.")
@click.option("--micro-batch", type=click.IntRange(1), help="Only so many sequences at once.")
@click.option(
    "--recompute",
    type=Choice(["none", "blocks"]),
    help="Only with, or without, recomputation.",
)
@click.option(
    "--verify",
    type=click.IntRange(0),
    default=3,
    show_default=True,
    help="Layouts to try by dry run until one fits; 0: formulas alone.",
)
@click.option(
    "--emit",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the best layout to this TOML file, which Parallelism.from_toml reads.",
)
@json_option
@quiet_option
@click.argument("model")
def plan(
    model: str,
    batch: int,
    gpus: int,
    gpu: str,
    sequence: int | None,
    precision: str,
    verify: int,
    emit: Path | None,
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> int:
    """Parallel layouts of MODEL on a cluster: which fit, and how fast each would be.

    MODEL is a name (gpt3-175b, llama3-8b, ...), a Hugging Face config.json or the name of a model
    in its cache, a TOML file with layers, hidden, heads, vocabulary and sequence, or
    `module:function` that builds an nn.Module. Exit code 1: nothing fits.
    """
    from dataclasses import asdict

    from hotlap.plan.layout_search import search
    from hotlap.plan.number_formats import Precision
    from hotlap.reporting import plan_text

    silent = quiet or as_json
    shape = _shape(model, sequence, Precision(precision), quiet=silent)
    names = ("tensor", "pipeline", "shard", "micro_batch", "recompute")
    only = {name: value for name in names if (value := given.pop(name)) is not None}
    cluster = _cluster(gpu, gpus, **given)
    plans = search(shape, cluster, batch, Precision(precision), only)
    if not as_json:
        plan_text.show(console(), plans, shape, cluster, batch, brief=quiet)
    runs = _verified(shape, cluster, plans, batch, verify, quiet=silent)
    found = asdict(plans)
    document = headed(
        {"model": model, "batch": batch, "unit": shape.unit, "cluster": asdict(cluster)}
        | found
        | {"verified": [asdict(run) for run in runs]}
    )
    keep(document | {name: found[name][:MOST_KEPT] for name in ("fitting", "closest")})
    if as_json:
        print_json(document)
    if not plans.fitting:
        return NEGATIVE
    _start(plans, runs, cluster, batch, emit, quiet=as_json)
    return OK


def _shape(model: str, sequence: int | None, precision: "Precision", *, quiet: bool) -> "Shape":
    from dataclasses import replace

    if ":" in model:
        from hotlap.plan.module_model import read_module

        doing = f"building {model} and running it on fake tensors"
        with status(console(err=True), doing, quiet=quiet):
            return read_module(model, sequence or 0, precision)
    from hotlap.plan.reading import read_shape

    shape = read_shape(model)
    return replace(shape, sequence=sequence) if sequence else shape


def _cluster(
    gpu: str,
    gpus: int,
    node: int,
    achieved: float,
    memory: float | None,
    peak: float | None,
    inside: float | None,
    outside: float | None,
) -> "Cluster":
    """The preset, with what was given instead."""
    from dataclasses import replace

    from hotlap.plan.cluster import GIB, PRESETS

    preset = PRESETS[gpu].having(gpus)
    return replace(
        preset,
        node=node,
        achieved=achieved,
        memory=memory * GIB if memory else preset.memory,
        peak=peak * 1e12 if peak else preset.peak,
        inside=inside * 1e9 if inside else preset.inside,
        outside=outside * 1e9 if outside else preset.outside,
    )


def _verified(
    shape: "Shape", cluster: "Cluster", plans: "Plans", batch: int, tries: int, *, quiet: bool
) -> list["Verified"]:
    """Dry runs of the best plans, and what they came to."""
    from hotlap.plan.verify import until_one_fits
    from hotlap.reporting.plan_ranks import ranks

    runs = []
    doing = "dry run of one rank of each distinct stage"
    with status(console(err=True), f"{doing}: 1 of at most {tries}", quiet=quiet) as update:
        for run in until_one_fits(shape, cluster, plans.fitting, batch, tries):
            runs.append(run)
            update(f"{doing}: {len(runs) + 1} of at most {tries}")
    for run in runs if not quiet else ():
        ranks(console(), run, cluster)
    return runs


def _start(
    plans: "Plans",
    runs: list["Verified"],
    cluster: "Cluster",
    batch: int,
    emit: Path | None,
    *,
    quiet: bool,
) -> None:
    """Write the layout that was seen to fit, or else the best by formula; say how to start it."""
    from hotlap.core.errors import UsageError
    from hotlap.plan.emit import toml, torchrun
    from hotlap.reporting.words import pasted

    seen = [run.plan for run in runs if run.fits(cluster)]
    best = seen[0] if seen else plans.fitting[0]
    if emit is not None:
        try:
            emit.write_text(toml(best.layout, batch))
        except OSError as error:
            raise UsageError(f"cannot write {emit}: {error.strerror}") from None
    if not quiet:
        out, label = console(), "start it: "
        lines = pasted(torchrun(cluster), out.width, " " * len(label))
        click.echo(f"\n{label}{lines[len(label) :]}")
        if emit is not None:
            click.echo(f"with:     Parallelism.from_toml({str(emit)!r})")
