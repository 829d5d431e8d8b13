"""`hotlap run`."""

from pathlib import Path

import click

from hotlap.cli.common import COMMAND, command_argument
from hotlap.core.errors import UsageError

NOTHING = "nothing to change; the source may have it already"


@click.command(context_settings=COMMAND)
@click.option(
    "--recipe",
    type=click.Path(path_type=Path),
    default=Path("hotlap.toml"),
    show_default=True,
    help="The recipe to apply.",
)
@click.option("-q", "--quiet", is_flag=True, help="Say nothing unless something is wrong.")
@command_argument
def run(recipe: Path, quiet: bool, command: tuple[str, ...]) -> None:  # fmt: skip
    """Run CMD with the recipe applied; its output and exit code stay its own."""
    from hotlap.core.recipe import Recipe
    from hotlap.core.spec import Mode
    from hotlap.trial.attend import attend, leave_like
    from hotlap.trial.command import normalise
    from hotlap.trial.launch import Setting

    parts = normalise(command)
    found = Recipe.read(recipe)
    _refuse_nested()
    if not quiet:
        _announce(found, parts)
    witness = Witness()
    setting = Setting(parts, Mode.RUN, found.values, separate=False)
    code = attend(setting, witness.see)
    for line in witness.complaints(found):
        click.echo(f"hotlap: {line}", err=True)
    leave_like(code)


def _refuse_nested() -> None:
    import os

    if "HOTLAP_SPEC" in os.environ:
        raise UsageError("this is already running below hotlap", "start the outer one alone")


def _announce(recipe: "Recipe", command: tuple[str, ...]) -> None:  # type: ignore[name-defined]  # noqa: F821
    from hotlap.core.machine import detect
    from hotlap.core.recipe import torch_version
    from hotlap.report.words import named

    on = ", ".join(named(name, kept.values) for name, kept in recipe.techniques.items())
    ratio = f" ({recipe.measured.ratio:.2f}x when tuned)" if recipe.measured.confirmed else ""
    click.echo(f"hotlap: {on or 'nothing'} on{ratio}", err=True)
    for reason in recipe.stale(detect(), torch_version(), command):
        click.echo(f"hotlap: the recipe may be stale: {reason}; `hotlap tune` again", err=True)


class Witness:
    """Sees whether the recipe took hold in the processes of the command."""

    def __init__(self) -> None:
        self.reached = False
        self.stepped = False
        self.held: set[str] = set()
        self.inert: dict[str, str] = {}
        self.broken = ""

    def see(self, message: "Message | None") -> bool:  # type: ignore[name-defined]  # noqa: F821
        """Take one message in."""
        if message is None:
            return False
        self.reached = True
        if message.type == "broken":
            self.broken = message.fields["error"]
        if message.type in {"step", "end"}:
            self.stepped = True
            self.held |= set(message.fields["held"])
            self.inert |= message.fields["inert"]
        return False

    def complaints(self, recipe: "Recipe") -> list[str]:  # type: ignore[name-defined]  # noqa: F821
        """What of the recipe was not applied, and why; empty when all of it was."""
        if not recipe.techniques:
            return []
        if self.broken:
            return [f"the recipe could not be applied: {self.broken}"]
        if not self.reached:
            why = "no Python process with torch was seen (python -I keeps hotlap out)"
            return [f"the recipe was not applied: {why}"]
        if not self.stepped:
            return ["the recipe was not applied: no optimizer step was seen"]
        idle = [name for name in recipe.techniques if name not in self.held]
        return [f"{name} did not take hold: {self.inert.get(name, NOTHING)}" for name in idle]
