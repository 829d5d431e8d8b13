"""Every idiom, run without hotlap: the stated exit code, and the same output twice."""

import subprocess
import sys

import pytest

from idioms.manifest import FOLDER, IDIOMS, Idiom


def run_plain(idiom: Idiom) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        idiom.argv(sys.executable),
        cwd=FOLDER,
        input=idiom.stdin or "",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("idiom", IDIOMS, ids=lambda idiom: idiom.name)
def test_runs_plainly_and_repeats_itself(idiom: Idiom) -> None:
    for module in idiom.needs:
        pytest.importorskip(module)
    first, second = run_plain(idiom), run_plain(idiom)
    assert first.returncode == idiom.exit_code, first.stderr
    assert second.returncode == idiom.exit_code, second.stderr
    assert first.stdout
    assert first.stdout == second.stdout


def test_names_are_unique() -> None:
    names = [idiom.name for idiom in IDIOMS]
    assert len(names) == len(set(names))
