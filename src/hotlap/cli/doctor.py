"""`hotlap doctor`."""

from typing import TYPE_CHECKING

import click

from hotlap.cli.common import NEGATIVE, console, folder, json_option, print_json, quiet_option

if TYPE_CHECKING:
    from hotlap.trial.doctor import Check


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@json_option
@quiet_option
@click.pass_context
def doctor(ctx: click.Context, as_json: bool, quiet: bool) -> None:
    """Say what this machine and this Python can do for hotlap, and what to install.

    Exit code: 1 when something that hotlap needs is missing.
    """
    from dataclasses import asdict

    from hotlap.trial.doctor import State, checks

    found = checks(folder() / "scratch")
    if as_json:
        print_json({"checks": [asdict(check) for check in found]})
    else:
        _show([check for check in found if not quiet or check.state is not State.OK])
    ctx.exit(NEGATIVE if any(check.state is State.MISSING for check in found) else 0)


def _show(found: "list[Check]") -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in found:
        text = Text(check.detail)
        if check.fix:
            text.append(f"\n{check.fix}", style="dim")
        table.add_row(Text(check.state, style=_STYLES[check.state]), check.name, text)
    console().print(table)


_STYLES = {"ok": "green", "limited": "yellow", "missing": "red"}
