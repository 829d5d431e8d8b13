"""`hotlap explain`."""

import click

from hotlap.cli.common import console, json_option, print_json, quiet_option


@click.command()
@json_option
@quiet_option
@click.argument("technique", required=False)
def explain(as_json: bool, quiet: bool, technique: str | None) -> None:
    """Say what a technique does, when it pays and what it may change; without ID, list all.

    A lint pattern's id stands for the technique it belongs to.
    """
    from hotlap.core.registry import technique as find
    from hotlap.core.registry import techniques

    found = [find(_owner(technique))] if technique else list(techniques().values())
    if as_json:
        from dataclasses import asdict

        print_json({"techniques": [asdict(record) for record in found]})
        return
    from hotlap.reporting import explain_text

    if technique:
        explain_text.show_one(console(), found[0])
    else:
        explain_text.show_all(console(), found, brief=quiet)


def _owner(name: str) -> str:
    """The technique that a lint pattern belongs to; any other name stays."""
    from hotlap.core.registry import techniques

    owners = {p.id: record.id for record in techniques().values() for p in record.patterns}
    return owners.get(name, name)
