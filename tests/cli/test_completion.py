"""`--install-completion`, and what the installed completion gives."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from hotlap.cli.main import hotlap


def install(home: Path, *words: str, shell: str = "/bin/bash") -> str:
    env = {"HOME": str(home), "SHELL": shell, "XDG_DATA_HOME": None, "XDG_CONFIG_HOME": None,
           "ZDOTDIR": None}  # fmt: skip
    result = CliRunner().invoke(hotlap, ["--install-completion", *words], env=env)
    return f"{result.exit_code} {result.output}{result.exception or ''}"


def test_the_start_file_keeps_its_lines_and_is_changed_once(tmp_path: Path) -> None:
    start = tmp_path / ".bashrc"
    start.write_text("alias ll='ls -l'")
    for _ in range(2):
        assert install(tmp_path).startswith("0 written: ")
    lines = start.read_text().splitlines()
    assert lines[0] == "alias ll='ls -l'"
    assert sum("source" in line for line in lines) == 1


@pytest.mark.parametrize(
    ("shell", "script"),
    [
        ("zsh", ".local/share/hotlap/complete.zsh"),
        ("fish", ".config/fish/completions/hotlap.fish"),
    ],
)
def test_other_shells(tmp_path: Path, shell: str, script: str) -> None:
    assert install(tmp_path, shell).startswith("0 ")
    assert "_HOTLAP_COMPLETE" in (tmp_path / script).read_text()


def test_a_shell_without_completion_is_refused(tmp_path: Path) -> None:
    assert "no completion for the shell 'dash'" in install(tmp_path, shell="/bin/dash")
    assert "Did you mean 'fish'" in install(tmp_path, "fisch")


@pytest.mark.parametrize(
    ("words", "given"),
    [("hotlap prof", ["profile"]), ("hotlap tune --bud", ["--budget"]), ("hotlap tune tra", None)],
)
def test_bash_completes(tmp_path: Path, words: str, given: list[str] | None) -> None:
    """Verbs and options come from hotlap, the words of the command from the shell."""
    install(tmp_path)
    script = tmp_path / ".local" / "share" / "hotlap" / "complete.bash"
    typed = words.split()
    program = (
        f"compopt() {{ echo option:$2; }}; source '{script}'; COMP_WORDS=({words}); "
        f"COMP_CWORD={len(typed) - 1}; _hotlap_completion hotlap; echo ${{COMPREPLY[@]}}"
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", program],
        env=os.environ | {"PATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == (given if given is not None else ["option:default"])
