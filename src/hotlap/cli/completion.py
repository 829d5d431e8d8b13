"""`hotlap --install-completion`: verbs, options and file names completed by the shell."""

import os
from pathlib import Path

import click
from click.decorators import FC
from click.shell_completion import get_completion_class

from hotlap.cli.common import Choice
from hotlap.core.errors import UsageError

SHELLS = ("bash", "zsh", "fish")
MARK = "# completion of hotlap"
START_ZSH = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }"


def _install(ctx: click.Context, _: click.Parameter, shell: str | None) -> None:
    """Write the shell's script, have the shell read it at its start, and end."""
    if shell is None or ctx.resilient_parsing:
        return
    script, start = install(_named(shell), ctx.command)
    click.echo(f"written: {script}" + (f", which {start} reads" if start else ""))
    click.echo("it works in shells that are started from now on")
    ctx.exit()


def _named(shell: str) -> str:
    if shell:
        return shell
    found = Path(os.environ.get("SHELL", "")).name
    if found not in SHELLS:
        raise UsageError(
            f"no completion for the shell {found!r}" if found else "SHELL names no shell",
            "hotlap --install-completion=bash, =zsh or =fish",
        )
    return found


def install(shell: str, command: click.Command) -> tuple[Path, Path | None]:
    """Write the script of the shell; the script, and the start file that reads it, if one has to.

    Raises:
        UsageError: one of the files cannot be written.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    text = kind(command, {}, "hotlap", "_HOTLAP_COMPLETE").source()
    home = Path.home()
    config = Path(os.environ.get("XDG_CONFIG_HOME", home / ".config"))
    data = Path(os.environ.get("XDG_DATA_HOME", home / ".local" / "share"))
    try:
        if shell == "fish":  # reads this folder by itself
            return _write(config / "fish" / "completions" / "hotlap.fish", text), None
        script = _write(data / "hotlap" / f"complete.{shell}", text)
        start = (
            Path(os.environ.get("ZDOTDIR", home)) / ".zshrc" if shell == "zsh" else home / ".bashrc"
        )
        before = start.read_text("utf-8") if start.exists() else ""
        if MARK not in before:
            lines = [MARK, *([START_ZSH] if shell == "zsh" else []), f"source '{script}'"]
            _write(start, f"{before.rstrip()}\n\n" * bool(before) + "\n".join(lines) + "\n")
    except OSError as error:
        raise UsageError(f"cannot write {error.filename}: {error.strerror}") from None
    return script, start


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def completion_option(function: FC) -> FC:
    """`--install-completion[=SHELL]`; without a shell the one that SHELL names."""
    return click.option(
        "--install-completion",
        type=Choice(("", *SHELLS)),
        is_flag=False,
        flag_value="",
        metavar="[SHELL]",
        expose_value=False,
        is_eager=True,
        callback=_install,
        help="Complete verbs, options and file names in bash, zsh or fish, and exit.",
    )(function)
