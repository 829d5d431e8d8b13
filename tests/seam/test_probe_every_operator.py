"""Every operator of torch's passes through the probe, not those alone that somebody thought of.

One of which a diagnosis cannot make sense ends the search for work in vain silently.
"""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_every_operator_and_module_is_followed():
    program = Path(__file__).with_name("every_operator.py")
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) > 1000
