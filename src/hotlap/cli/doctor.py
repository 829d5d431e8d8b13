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
    from rich.text import Text

    from hotlap.reporting.tables import Row, columns, table
    from hotlap.reporting.words import hanging

    out = console()
    rows = [
        Row((Text(check.state, _STYLES[check.state]), check.name), check.detail) for check in found
    ]
    out.print(table(columns("", "", left=[""]), rows, out.width))
    for check in found:
        if check.fix:
            out.print(Text(hanging(f"{check.name}: {check.fix}", out.width, "", "  "), "dim"))


_STYLES = {"ok": "green", "limited": "yellow", "missing": "red"}
