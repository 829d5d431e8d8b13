"""Every verb of the command line, walked, so that a new one is tested by itself."""

from collections.abc import Iterator

import click

from hotlap.cli.main import VERBS, Verbs, hotlap

Words = tuple[str, ...]


def commands() -> Iterator[tuple[Words, click.Command]]:
    """Every verb and sub-command with the words that call it."""
    assert isinstance(hotlap, Verbs)
    context = click.Context(hotlap)
    for verb in VERBS:
        command = hotlap.get_command(context, verb)
        assert command is not None
        if isinstance(command, click.Group):
            for name, sub in command.commands.items():
                yield (verb, name), sub
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield (verb,), command


def option_names(command: click.Command) -> set[str]:
    """The options of a verb, in all spellings."""
    return {name for one in command.params for name in one.opts if name.startswith("-")}
