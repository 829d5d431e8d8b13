"""The guide's training runs below `hotlap launch` as it stands."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "launch.md"


@pytest.mark.slow
def test_the_guides_example_runs(tmp_path: Path) -> None:
    text = GUIDE.read_text()
    (script,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    command = re.findall(r"```\n(hotlap launch .*?)\n```", text)[0]
    (tmp_path / "train.py").write_text(script)
    result = subprocess.run(
        [sys.executable, "-m", *shlex.split(command)],
        cwd=tmp_path, capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "steps: 30" in result.stdout
    kept = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert kept == ["step-000000020", "step-000000025", "step-000000030"]
