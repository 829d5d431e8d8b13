import importlib.util
from pathlib import Path

import pytest
from guard_idioms import HEAD
from guard_native_idioms import NATIVE
from guarding import make_bench

NEEDS = {"torch_distributed": "torch", "pictures": "matplotlib"}
WITH_TORCH = ("torch", "torch_distributed", "safetensors", "tensorboard")
ALONE = tuple(name for name in NATIVE if name not in WITH_TORCH)


@pytest.mark.parametrize("names", [WITH_TORCH, ALONE], ids=["with torch", "alone"])
def test_native_writers_see_the_same_and_leave_the_tree_alone(
    names: tuple[str, ...], tmp_path: Path
) -> None:
    """One script of all that are installed: each script would import torch or pandas anew."""
    found = [name for name in names if importlib.util.find_spec(NEEDS.get(name, name))]
    said = make_bench(tmp_path).compare(HEAD + "".join(writing(name) for name in found))
    assert [line for line in said.splitlines() if line.startswith("done: ")] == [
        f"done: {name}" for name in found
    ]


def writing(name: str) -> str:
    return f'{NATIVE[name]}\nprint("done: {name}", flush=True)\n'
