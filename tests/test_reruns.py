"""Which failures are tried again: of tests that start processes, or say so."""

import shutil
import subprocess
import sys
from pathlib import Path

TESTS = """
import subprocess
import sys
import pytest

tries = {}

def passes_later(name):
    tries[name] = tries.get(name, 0) + 1
    assert tries[name] > 1

def test_of_numbers():
    passes_later("numbers")

def test_that_starts():
    subprocess.run(["true"])
    passes_later("starts")

def test_that_probes():
    sys.audit("hotlap.tests.probed")
    passes_later("probes")

@pytest.mark.clock
def test_that_measures():
    passes_later("measures")
"""


def test_only_what_goes_by_the_clock_is_run_again(tmp_path: Path) -> None:
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = clock\n")
    (tmp_path / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    printed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    assert "1 failed, 3 passed, 3 rerun" in printed
    assert "3 tests were run again" in printed
    assert "test_that_starts: 1 more" in printed
