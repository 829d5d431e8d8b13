"""`hotlap plan`."""

from pathlib import Path

import click

from hotlap.cli.common import NEGATIVE, OK, console, print_json


@click.command()
@click.option("--batch", required=True, type=click.IntRange(1), help="Sequences a step, in all.")
@click.option("--gpus", required=True, type=click.IntRange(1), help="GPUs in the cluster.")
@click.option(
    "--gpu",
    type=click.Choice(["a100", "h100", "h200"]),
    default="h100",
    show_default=True,
    help="Kind of GPU: memory, peak and links.",
)
@click.option(
    "--node", type=click.IntRange(1), default=8, show_default=True, help="GPUs that share a node."
)
@click.option("--memory", type=click.FloatRange(1.0), help="GiB a GPU, if not the preset's.")
@click.option(
    "--achieved",
    type=click.FloatRange(0.01, 1.0),
    default=0.5,
    show_default=True,
    help="Share of the peak that your kernels reach on one GPU: measure it.",
)
@click.option("--sequence", type=click.IntRange(1), help="Tokens a sequence, if not the model's.")
@click.option(
    "--emit",
    type=click.Path(path_type=Path),
    help="Write the best layout to this TOML file (torchtitan's field names).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.argument("model")
def plan(
    model: str,
    batch: int,
    gpus: int,
    gpu: str,
    node: int,
    memory: float | None,
    achieved: float,
    sequence: int | None,
    emit: Path | None,
    as_json: bool,
) -> int:
    """Parallel layouts of MODEL on a cluster: which fit, and how fast each would be.

    MODEL is a name (gpt3-175b, llama3-8b, ...), a Hugging Face config.json, or a TOML file with
    layers, hidden, heads, vocabulary and sequence. Exit code 1: nothing fits.
    """
    from dataclasses import asdict, replace

    from hotlap.plan.cluster import GIB, PRESETS
    from hotlap.plan.search import search
    from hotlap.plan.shape import read_shape
    from hotlap.report import plan_text

    shape = read_shape(model)
    shape = replace(shape, sequence=sequence) if sequence else shape
    preset = PRESETS[gpu]
    cluster = replace(
        preset.having(gpus),
        node=node,
        achieved=achieved,
        memory=memory * GIB if memory else preset.memory,
    )
    plans = search(shape, cluster, batch)
    if as_json:
        print_json(asdict(plans))
    else:
        plan_text.show(console(), plans, shape, cluster, batch)
    if not plans.fitting:
        return NEGATIVE
    if emit is not None:
        emit.write_text(plan_text.toml(plans.fitting[0].layout, batch))
    if not as_json:
        click.echo(f"\nstart it: {plan_text.torchrun(cluster)}")
    return OK
