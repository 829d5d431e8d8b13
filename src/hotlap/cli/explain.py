"""`hotlap explain`."""

import click

from hotlap.cli.common import console, json_option, print_json, quiet_option
from hotlap.core.errors import UsageError, did_you_mean


@click.command()
@json_option
@quiet_option
@click.argument("technique", nargs=-1, metavar="[ID|WORD]")
def explain(as_json: bool, quiet: bool, technique: tuple[str, ...]) -> None:
    """Say what a technique does, when it pays and what it may change; without ID, list all.

    A lint pattern's id stands for the technique it belongs to, torch's own name of a setting
    (no_sync, pin_memory) for the one technique that is about it. A verdict of `hotlap tune` (kept,
    same, load-dependent ...) is explained in a sentence, and so is the name of a finding that only
    you can act on (blocking_call, python_in_step ...).
    """
    name = " ".join(technique)
    if meant := _verdict(name):
        _show_meaning("verdict", *meant, as_json=as_json)
    elif (known := _finding(name)) is not None:
        _show_meaning("finding", name, known, as_json=as_json)
    else:
        _show(name, as_json=as_json, quiet=quiet)


def _verdict(name: str) -> tuple[str, str] | None:
    """The verdict of this name, with blanks, hyphens or underlines, and what it means."""
    from hotlap.tune.result import MEANINGS

    known = {_plain(word): (str(word), meaning) for word, meaning in MEANINGS.items()}
    return known.get(_plain(name))


def _plain(name: str) -> str:
    return name.lower().replace("-", " ").replace("_", " ")


def _finding(name: str) -> str | None:
    """What to do about a finding of this name that belongs to no technique."""
    from hotlap.profile.meanings import MEANINGS

    return MEANINGS.get(name)


def _show_meaning(kind: str, word: str, meaning: str, *, as_json: bool) -> None:
    if as_json:
        print_json({kind: word, "meaning": meaning})
        return
    from hotlap.reporting.words import hanging

    out = console()
    out.print(hanging(f"{word}: {meaning}", out.width), markup=False)


def _show(technique: str, *, as_json: bool, quiet: bool) -> None:
    """One technique, or all of them."""
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
    """The technique that a lint pattern belongs to, or that alone has such a name in it.

    Raises:
        UsageError: nothing has this name; names the closest of what has one.
    """
    from hotlap.core.registry import ceilings, named_by, techniques
    from hotlap.profile.meanings import MEANINGS

    owners = {p.id: record.id for record in techniques().values() for p in record.patterns}
    if name in {*techniques(), *ceilings(), *owners}:
        return owners.get(name, name)
    meant = named_by(name)
    hint = "" if meant else did_you_mean(name, [*techniques(), *owners, *MEANINGS])
    if hint:
        raise UsageError(f"there is no technique or finding called {name!r}", hint)
    return meant[0] if len(meant) == 1 else name
