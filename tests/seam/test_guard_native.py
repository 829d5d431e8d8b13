import importlib.util
from pathlib import Path

import pytest
from guard_idioms import HEAD
from guard_native_idioms import NATIVE
from guarding import make_bench

NEEDS = {"torch_distributed": "torch", "pictures": "matplotlib"}


@pytest.mark.parametrize("name", NATIVE)
def test_native_writer_sees_the_same_and_leaves_the_tree_alone(name: str, tmp_path: Path) -> None:
    module = NEEDS.get(name, name)
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    make_bench(tmp_path).compare(HEAD + NATIVE[name])
