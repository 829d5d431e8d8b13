"""`hotlap export`."""

from pathlib import Path

import click

from hotlap.cli.common import Choice, quiet_option


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--to",
    "tracker",
    type=Choice(["tensorboard", "mlflow", "wandb"]),
    required=True,
    help="The tracker; its package has to be installed.",
)
@click.option(
    "--where",
    default="",
    metavar="NAME",
    help="TensorBoard's folder (runs/hotlap by default), MLflow's experiment or the W&B project "
    "(hotlap by default).",
)
@quiet_option
@click.argument("document", type=click.Path(path_type=Path), metavar="REPORT.json")
def export(tracker: str, where: str, quiet: bool, document: Path) -> None:
    """Write a verdict or a profile to an experiment tracker.

    REPORT.json is what a verb prints with --json, or a file of `.hotlap/reports`. Its figures
    become metrics; command, headline and version become tags or text.
    """
    from hotlap.cli.compare import read_document, whole
    from hotlap.reporting.trackers import export as write

    with whole(str(document)):
        said = write(read_document(document), tracker, where)
    if not quiet:
        click.echo(f"written: {said}")
