"""`hotlap`: the group of verbs, loaded one by one so that help needs none of them."""

import errno
import importlib
import sys

import click

from hotlap import __version__
from hotlap.cli.completion import completion_option
from hotlap.core.errors import TrialFailedError, did_you_mean

VERBS = {
    "profile": "Where each step's time and memory go, and what to change.",
    "tune": "Race every technique that applies; write down what to keep.",
    "run": "Run a command with the recipe applied.",
    "race": "Which of two commands steps faster.",
    "compare": "Two profiles or other documents, figure by figure.",
    "export": "A verdict or a profile in TensorBoard, MLflow or W&B.",
    "bisect": "Which commit slowed a training step.",
    "patch": "The recipe written into the source, as a diff.",
    "lint": "The anti-patterns that can be seen without running.",
    "explain": "The catalogue of techniques.",
    "lr": "Learning-rate range test of the script as it is.",
    "batch": "The largest batch that fits, and the fastest.",
    "shrink": "Prune, distil and quantise a trained model; race what comes out.",
    "pack": "Turn a folder of samples into a fast dataset.",
    "plan": "Which parallel layouts of a model fit a cluster, and how fast each would be.",
    "bench": "What well-known articles claim, measured on this machine.",
    "kernel": "Check and race an operator of one's own against its reference.",
    "launch": "torchrun that recovers from a lost rank, and shows where a hang stands.",
    "mcp": "The verbs as tools for coding agents.",
    "doctor": "What this machine can do for hotlap, and what to install.",
    "machine": "This machine and its measured peaks.",
}

HINT = " " * len("hotlap: ")
OF_THE_DISK = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT}
"""What a file system may refuse without a fault of ours."""


class Verbs(click.Group):
    """Imports a verb's module when it is used; its one-line help stands here."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every verb, in the order of use."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Load one verb."""
        if name not in VERBS:
            return None
        module = importlib.import_module(f"hotlap.cli.{name}")
        command: click.Command = getattr(module, name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing them."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; a script given without one gets a hint."""
        if args and args[0] not in VERBS and args[0].endswith((".py", "python", "python3")):
            first, *rest = args
            words = [rest[0], first, *rest[1:]] if rest and rest[0] in VERBS else ["profile", *args]
            ctx.fail(f"which verb? For example: hotlap {' '.join(words)}")
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            hint = did_you_mean(args[0], VERBS, repr, "`hotlap --help` lists them")
            ctx.fail(f"there is no verb {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the verb; a failure that a misplaced option may have caused says so."""
        from hotlap.cli.common import late_option

        try:
            return super().invoke(ctx)
        except TrialFailedError as error:
            error.hint = late_option(ctx) or error.hint
            raise


@click.command(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hotlap")
@completion_option
def hotlap() -> None:
    """Put your PyTorch training on the clock.

    Every verb takes the command as you type it: `hotlap tune python train.py --lr 0.1`.
    """


def main() -> None:
    """Enter hotlap; errors meant for the user become one line and an exit code."""
    from hotlap.core.errors import HotlapError

    try:
        code = hotlap.main(prog_name="hotlap", auto_envvar_prefix="HOTLAP", standalone_mode=False)
    except click.Abort:  # a Ctrl-C that no verb turned into what is known so far
        click.echo("hotlap: interrupted", err=True)
        sys.exit(130)
    except click.ClickException as error:
        _show(error)
        sys.exit(error.exit_code)
    except HotlapError as error:
        from hotlap.cli.common import exit_code, say
        from hotlap.notebook.script import in_cells

        say(f"hotlap: {in_cells(str(error))}", indent=HINT)
        if error.hint:
            say(f"{HINT}{error.hint}", indent=HINT)
        sys.exit(exit_code(error))
    except OSError as error:
        if error.errno not in OF_THE_DISK:
            raise
        _show_refused(error)
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)


def _show_refused(error: OSError) -> None:
    """What the file system refused hotlap itself."""
    from hotlap.cli.common import FOLDER, say

    path = str(error.filename or "")
    say(f"hotlap: {f'{path}: ' if path else ''}{error.strerror}", indent=HINT)
    if FOLDER.name in path.split("/"):
        words = f"is it another user's? {FOLDER} holds what hotlap writes, and can be removed"
        say(f"{HINT}{words}", indent=HINT)


def _show(error: click.ClickException) -> None:
    """What click refuses, said as hotlap says its own errors."""
    from hotlap.cli.common import say

    message = error.format_message()
    say(f"hotlap: {message[:1].lower()}{message[1:].rstrip('.')}", indent=HINT)
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        say(f"{HINT}{context.get_usage().removeprefix('Usage: ')}", indent=HINT)
        say(f"{HINT}`{context.command_path} --help` lists the options", indent=HINT)
