"""`hotlap machine`."""

import click

from hotlap.cli.common import console, print_json


@click.command()
@click.option("--refresh", is_flag=True, help="Measure again instead of using the cache.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def machine(refresh: bool, as_json: bool) -> None:
    """Show this machine and its measured peaks: GEMM by dtype, copy bandwidth."""
    from dataclasses import asdict

    from hotlap.core.machine import detect
    from hotlap.core.peaks import peaks

    here, measured = detect(), peaks(refresh=refresh)
    if as_json:
        print_json({"machine": asdict(here), "peaks": asdict(measured)})
        return
    from hotlap.reporting.machine_text import show

    show(console(), here, measured)
