"""`hotlap machine`."""

import click

from hotlap.cli.common import console, json_option, print_json, quiet_option


@click.command()
@click.option("--refresh", is_flag=True, help="Measure again instead of using the cache.")
@json_option
@quiet_option
def machine(refresh: bool, as_json: bool, quiet: bool) -> None:
    """Show this machine and its measured peaks: GEMM by dtype, copy bandwidth."""
    from dataclasses import asdict

    from hotlap.core.machine import detect
    from hotlap.core.peaks import peaks

    here, measured = detect(), peaks(refresh=refresh)
    if as_json:
        print_json({"machine": asdict(here), "peaks": asdict(measured)})
        return
    from hotlap.reporting.machine_text import show

    show(console(), here, measured, brief=quiet)
