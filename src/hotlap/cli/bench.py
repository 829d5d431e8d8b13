"""`hotlap bench`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hotlap.cli.common import (
    INTERRUPTED,
    OK,
    console,
    json_option,
    print_json,
    quiet_option,
    status,
)

if TYPE_CHECKING:
    from hotlap.bench.rows import Row


@click.command()
@click.option("--only", default="", metavar="A,B", help="Measure these rows alone.")
@click.option("--quick", is_flag=True, help="One launch of each row, a few seconds long.")
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Write the table as an HTML file, too.")  # fmt: skip
@json_option
@quiet_option
@click.pass_context
def bench(ctx: click.Context, only: str, quick: bool, html: Path | None, as_json: bool,
          quiet: bool) -> None:  # fmt: skip
    """Measure what well-known articles claim, on this machine.

    Each row runs a small workload the plain way and the article's way by turns. Rows that need a
    CUDA device run where there is one. Ctrl-C keeps the rows that are complete.
    """
    from hotlap.bench.rows import chosen
    from hotlap.bench.run import QUICK, Plan, measure_rows
    from hotlap.core.machine import detect
    from hotlap.reporting import bench_text

    rows = chosen(tuple(filter(None, (part.strip() for part in only.split(",")))))
    machine, out = detect(), console(err=as_json)
    with status(out, "measuring", quiet=quiet) as update:

        def on_row(row: "Row") -> None:
            update(f"{rows.index(row) + 1} of {len(rows)}: {row.title}")

        found, interrupted = measure_rows(rows, machine, QUICK if quick else Plan(), on_row)
    if html is not None:
        bench_text.write_html(html, found, machine)
    if as_json:
        document = {"machine": machine.summary(), "quick": quick, "interrupted": interrupted}
        print_json(document | {"rows": [one.document() for one in found]})
    else:
        bench_text.show(out, found, brief=quiet)
        if interrupted:
            out.print(f"interrupted: {len(found)} of {len(rows)} rows are complete")
    ctx.exit(INTERRUPTED if interrupted else OK)
