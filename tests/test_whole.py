"""Every idiom under `hotlap run` and `hotlap profile`: the same output, the same exit code."""

import subprocess
import sys
from pathlib import Path

import pytest

from idioms.manifest import FOLDER, IDIOMS, Idiom

QUICK = {"stdin_exit3"}
"""Run at each commit, with input, output and an exit code; the others run with the slow tests."""
CASES = [
    pytest.param(idiom, id=idiom.name, marks=[] if idiom.name in QUICK else [pytest.mark.slow])
    for idiom in IDIOMS
]


def outcome(command: list[str], idiom: Idiom) -> tuple[int, str, str]:
    done = subprocess.run(
        command,
        cwd=FOLDER,
        input=idiom.stdin or "",
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("idiom", CASES)
def test_output_and_exit_code_stay_the_programs_own(idiom: Idiom, tmp_path: Path) -> None:
    for module in idiom.needs:
        pytest.importorskip(module)
    recipe = tmp_path / "hotlap.toml"
    recipe.write_text("[techniques.fused_optimizer]\n")
    command = idiom.argv(sys.executable)
    hotlap = [sys.executable, "-m", "hotlap"]

    code, output, errors = outcome(command, idiom)
    assert code == idiom.exit_code, errors[-2000:]

    profiled = outcome([*hotlap, "profile", "--steps", "all", *command], idiom)
    assert (profiled[0], profiled[1]) == (code, output), profiled[2][-2000:]

    recipe.write_text("")
    ran = outcome([*hotlap, "run", "-q", "--recipe", str(recipe), *command], idiom)
    assert (ran[0], ran[1]) == (code, output), ran[2][-2000:]
