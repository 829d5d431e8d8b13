"""The examples of the guide run as they stand, on one rank and on two."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from parallel import farm

GUIDE = Path(__file__).parent.parent.parent / "docs" / "parallel.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)


def example(index: int) -> None:
    exec(compile(EXAMPLES[index], f"docs/parallel.md[{index}]", "exec"), {"__name__": "example"})


@pytest.mark.parametrize("index", range(len(EXAMPLES)))
def test_on_one_rank(index: int) -> None:
    example(index)


@pytest.mark.parametrize("index", range(len(EXAMPLES)))
def test_on_two_ranks(index: int) -> None:
    farm.run(2, example, index)


@pytest.mark.slow
@pytest.mark.parametrize("index", range(len(EXAMPLES)))
def test_under_torchrun(index: int, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(EXAMPLES[index] + "\ndist.barrier()\ndist.destroy_process_group()\n")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*command, "--nproc-per-node", "2", str(script)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 2
