"""`hotlap run`."""

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hotlap.cli.common import COMMAND, command_argument, quiet_option, say
from hotlap.core.errors import UsageError

if TYPE_CHECKING:
    from hotlap.core.recipe import Recipe
    from hotlap.trial.channel import Message


@click.command(context_settings=COMMAND)
@click.option(
    "--recipe",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("hotlap.toml"),
    show_default=True,
    help="The recipe to apply.",
)
@quiet_option
@command_argument
def run(recipe: Path, quiet: bool, command: tuple[str, ...]) -> None:  # fmt: skip
    """Run CMD with the recipe applied; its output and exit code stay its own."""
    from hotlap.core.recipe import Recipe
    from hotlap.core.spec import Mode
    from hotlap.trial.command import normalise
    from hotlap.trial.foreground import leave_like, run_foreground
    from hotlap.trial.launch import Setting

    parts = normalise(command)
    found = Recipe.read(recipe)
    _refuse_nested()
    changed = bool(found.script_change(parts))
    there = _in_source(found, parts) if changed else frozenset()  # `patch` may have written it
    if not quiet:
        _announce(found, parts, there)
    on = {name: values for name, values in found.values.items() if name not in there}
    status = RecipeStatus()
    code = run_foreground(Setting(parts, Mode.RUN, on, separate=False), status.see, status.leaves)
    idle = status.idle(on)
    written = _in_source(found, parts) if idle else frozenset()
    if written & set(idle) and not quiet:
        click.echo(f"hotlap: {_already(idle, written)}", err=True)
    for line in status.complaints(name for name in on if name not in written):
        say(f"hotlap: {line}", indent="  ")
    leave_like(code)


def _in_source(recipe: "Recipe", command: tuple[str, ...]) -> frozenset[str]:
    from hotlap.source.patch.plan import in_source

    return in_source(recipe, command)


def _already(names: Collection[str], written: Collection[str]) -> str:
    return f"{', '.join(name for name in names if name in written)}: already in the source"


def _refuse_nested() -> None:
    if "HOTLAP_SPEC" in os.environ:
        raise UsageError(
            "this is already running below hotlap",
            "start the outer one alone; `hotlap tune --only ID,ID CMD` races a recipe's techniques",
        )


def _announce(recipe: "Recipe", command: tuple[str, ...], there: Collection[str]) -> None:
    """What is on; of a recipe that was written into the script, what is there already."""
    from hotlap.core.machine import detect
    from hotlap.core.recipe import torch_version
    from hotlap.reporting.words import named
    from hotlap.trial.command import plain_lines, shown
    from hotlap.trial.launch import SLEEPING_WHEN_TUNED

    if there and len(there) == len(recipe.techniques):
        words = "the recipe is already in the source; it can be run plainly"
        (line,) = plain_lines(shown(command), {})
        click.echo(f"hotlap: {words}: {line}", err=True)
        return
    on = [named(name, kept.values) for name, kept in recipe.techniques.items() if name not in there]
    whole = recipe.measured.confirmed and not there
    ratio = f" ({recipe.measured.ratio:.2f}x when tuned)" if whole else ""
    also = f"; {_already(recipe.techniques, there)}" if there else ""
    say(f"hotlap: {', '.join(on) or 'nothing'} on{ratio}{also}", indent="  ")
    if there:  # that is why the script is another
        recipe = replace(recipe, measured=replace(recipe.measured, script_hash="", program_hash=""))
    if recipe.measured.threads and "OMP_WAIT_POLICY" not in os.environ:
        say(f"hotlap: {SLEEPING_WHEN_TUNED}", indent="  ")
    for reason in recipe.stale(detect(), torch_version(), command):
        say(f"hotlap: the recipe may be stale: {reason}; `hotlap tune` again", indent="  ")


class RecipeStatus:
    """Sees whether the recipe took hold in the processes of the command."""

    def __init__(self) -> None:
        self.reached = False
        self.stepped = False
        self.held: set[str] = set()
        self.inert: dict[str, str] = {}
        self.broken = ""
        self.left = ""

    def see(self, message: "Message | None") -> bool:
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

    def leaves(self, process: str) -> None:
        """The command has ended, and this process of it goes on."""
        self.left = process

    def idle(self, on: Mapping[str, object]) -> list[str]:
        """The techniques that did not take hold where the training was reached."""
        return [name for name in on if name not in self.held] if self.stepped else []

    def complaints(self, names: Iterable[str]) -> list[str]:
        """Which of the techniques were not applied, and why; empty when all of them were."""
        wanted = list(names)
        if not wanted:
            return []
        if self.broken:
            return [f"the recipe could not be applied: {self.broken}"]
        if self.left and not self.stepped:
            why = f"the command has ended, and left {self.left} running"
            return [f"whether the recipe was applied is not known: {why}"]
        if not self.reached:
            why = "no Python process with torch was seen (python -I keeps hotlap out)"
            return [f"the recipe was not applied: {why}"]
        if not self.stepped:
            return ["the recipe was not applied: no optimizer step was seen"]
        idle = [name for name in wanted if name not in self.held]
        parted = [name for name in wanted if name in self.held and name in self.inert]
        return [
            *(f"{one} did not take hold: {self.inert.get(one) or _nothing(one)}" for one in idle),
            *(f"{one} did not hold throughout: {self.inert[one]}" for one in parted),
        ]


def _nothing(name: str) -> str:
    """Why a technique may have found nothing to change: it lacks what it needs, or is there."""
    from hotlap.core.registry import technique

    lacking = [need.reason for need in technique(name).needs if not need.fact.startswith("!")]
    return f"nothing to change: {', or '.join([*lacking, 'the source has it already'])}"
