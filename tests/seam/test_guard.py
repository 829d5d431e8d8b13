from pathlib import Path

import pytest
from guard_idioms import HEAD, IDIOMS
from guarding import make_bench


@pytest.mark.parametrize("name", IDIOMS)
def test_idiom_sees_the_same_and_leaves_the_tree_alone(name: str, tmp_path: Path) -> None:
    make_bench(tmp_path).compare(HEAD + IDIOMS[name])
