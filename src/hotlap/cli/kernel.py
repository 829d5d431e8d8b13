"""`hotlap kernel`."""

import sys
from pathlib import Path

import click

from hotlap.cli.common import NEGATIVE, OK, Choice, console, json_option, print_json, quiet_option


@click.group()
def kernel() -> None:
    """Check and race an operator of one's own against its reference."""


@kernel.command()
@click.argument("where", metavar="FILE[:NAME]")
@click.option(
    "--race",
    type=Choice(["compile", "eager", "none"]),
    default="compile",
    show_default=True,
    help="What to race the operator against once it is correct.",
)
@json_option
@quiet_option
def check(where: str, race: str, as_json: bool, quiet: bool) -> None:
    """Check an operator against its reference in float64, then race it.

    FILE is Python and defines `reference` (plain PyTorch, works in float64) and the operator,
    called `kernel` or NAME: a function, a torch.autograd.Function, or a pair (forward, backward).
    It may define `inputs(rows, columns, dtype, generator)`, DTYPES, DIFFERENTIABLE, TOLERANCE_ULP
    and DEVICE. Exit code 1: a check failed.
    """
    from hotlap.kernel_check.verdict import add_shares
    from hotlap.kernel_check.verdict import check as checked

    verdict = checked(where, race)
    if verdict.race:
        add_shares(verdict)
    if as_json:
        print_json(verdict.document())
    else:
        from hotlap.reporting.kernel_text import show

        show(console(), verdict, brief=quiet)
    sys.exit(OK if verdict.passed else NEGATIVE)


@kernel.command()
@click.argument("name")
@click.option(
    "--in",
    "parent",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Where to put the folder; the working directory if not given.",
)
@quiet_option
def new(name: str, parent: Path, quiet: bool) -> None:
    """Write a folder with a reference, C, Triton and CUDA sources, a test and a benchmark.

    What it writes passes `hotlap kernel check`; change the formula from there.
    """
    from hotlap.kernel_check.template import write

    folder = write(name, parent)
    if not quiet:
        click.echo(f"wrote {folder}; next: hotlap kernel check {folder / (name + '.py')}")
