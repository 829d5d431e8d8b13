"""What a verb says of its trials' isolation: one line at the start, changed files at the end."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hotlap.cli.common import FOLDER, folder, say

if TYPE_CHECKING:
    from hotlap.isolation.tiers import Isolation
    from hotlap.isolation.tree_diff import Tree

_NAMED = 20


@dataclass
class Isolated:
    """The isolation of a verb's trials, and which of the user's files changed all the same."""

    isolation: "Isolation"
    before: "Tree | None"
    quiet: bool
    changed: tuple[str, ...] = field(default=(), init=False)
    looked: bool = field(default=False, init=False)

    def document(self) -> dict[str, object]:
        """What a `--json` document says of how and where its trials ran."""
        from hotlap.core.machine import detect

        self._look()
        machine = detect()
        return {
            "isolation": self.isolation.to_json() | {"changed": list(self.changed)},
            "machine": asdict(machine) | {"fingerprint": machine.fingerprint},
        }

    def name_changes(self) -> None:
        """Print each file that changed for real."""
        self._look()
        if not self.changed:
            return
        click.echo(f"hotlap: {len(self.changed)} of your files changed during this run:", err=True)
        for path in self.changed[:_NAMED]:
            click.echo(f"  {path}", err=True)
        if len(self.changed) > _NAMED:
            click.echo(f"  and {len(self.changed) - _NAMED} more", err=True)

    def _look(self) -> None:
        if self.before is not None and not self.looked:
            from hotlap.isolation.tree_diff import changed, tree_hash

            self.looked = True
            self.changed = changed(self.before, tree_hash(Path.cwd(), [str(FOLDER)]))


def isolated(ctx: click.Context, *, quiet: bool) -> Isolated:
    """Choose and test the isolation; print it, and at the verb's end each file that changed."""
    from hotlap.core.spec import Tier
    from hotlap.isolation.refusals import space_warning
    from hotlap.isolation.tiers import isolation
    from hotlap.isolation.tree_diff import tree_hash

    found = isolation(folder() / "scratch")
    if not quiet:
        say(found.line(), indent="  ")
        if warning := space_warning(found, folder() / "scratch", Path.cwd()):
            say(f"hotlap: {warning}", indent="  ")
    watched = found.tier is not Tier.OVERLAY  # Landlock does not know all calls
    seen = Isolated(found, tree_hash(Path.cwd(), [str(FOLDER)]) if watched else None, quiet)
    ctx.call_on_close(seen.name_changes)
    return seen
