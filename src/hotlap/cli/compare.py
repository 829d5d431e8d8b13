"""`hotlap compare`."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from hotlap.cli.common import console, json_option, print_json, quiet_option


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@json_option
@quiet_option
@click.argument("first", type=click.Path(path_type=Path), metavar="A.json")
@click.argument("second", type=click.Path(path_type=Path), metavar="B.json")
def compare(as_json: bool, quiet: bool, first: Path, second: Path) -> None:
    """Show what differs between two documents of the same verb, such as two profiles.

    Documents are what `--json` prints, and what `.hotlap/reports` keeps. They were measured at
    different times: only `hotlap race` shows which of two programs is faster.
    """
    from hotlap.reporting import compare_text

    with whole(f"{first} or {second}"):
        found = compare_text.compare(read_document(first), read_document(second))
    if as_json:
        print_json(found.document() | {"files": [str(first), str(second)]})
    else:
        compare_text.show(console(), found, brief=quiet)


@contextmanager
def whole(name: str) -> Iterator[None]:
    """Say of a document that lacks what its verb writes that it does, instead of a traceback.

    Raises:
        UsageError: a key was asked for that is not there, or holds something else.
    """
    from hotlap.core.errors import UsageError

    try:
        yield
    except (KeyError, TypeError, AttributeError) as error:
        hint = "it may have been edited, or written by another version of hotlap"
        raise UsageError(f"{name} is no whole document: {error!r}", hint) from None


def read_document(path: Path) -> dict[str, object]:
    """A document that a verb printed with --json, or left in `.hotlap/reports`.

    Raises:
        UsageError: the file cannot be read, or is none.
    """
    from hotlap.core.errors import UsageError

    try:
        document = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}") from None
    if not isinstance(document, dict) or "verb" not in document:
        hint = "give what a verb of hotlap prints with --json"
        raise UsageError(f"{path} is no document of hotlap", hint)
    return document
