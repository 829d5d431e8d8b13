import os
from pathlib import Path

import pytest

from hotlap.isolation.tree_diff import changed, tree_hash


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_text("one")
    (tmp_path / ".hotlap").mkdir()
    (tmp_path / "link").symlink_to("a/x")
    return tmp_path


def test_nothing_changed(tree: Path) -> None:
    assert changed(tree_hash(tree), tree_hash(tree)) == ()


def test_names_what_came_went_and_was_written(tree: Path) -> None:
    (tree / "old").write_text("o")
    before = tree_hash(tree, ignore=[".hotlap"])
    (tree / "a" / "x").write_text("two")
    (tree / "b").mkdir()
    (tree / "old").unlink()
    (tree / ".hotlap" / "x").write_text("ours")
    assert changed(before, tree_hash(tree, ignore=[".hotlap"])) == ("a/x", "b", "old")


def test_same_size_and_time_but_other_content(tree: Path) -> None:
    path = tree / "a" / "x"
    before, times = tree_hash(tree), path.stat()
    path.write_text("eno")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert changed(before, tree_hash(tree)) == ("a/x",)


def test_metadata_alone_is_a_change(tree: Path) -> None:
    before = tree_hash(tree)
    (tree / "a").chmod(0o700)
    (tree / "a" / "x").chmod(0o600)
    assert changed(before, tree_hash(tree)) == ("a", "a/x")


def test_an_attribute_alone_is_a_change(tree: Path) -> None:
    before = tree_hash(tree)
    try:
        os.setxattr(tree / "a" / "x", "user.mark", b"1")
    except OSError:
        pytest.skip("no attributes on this file system")
    assert changed(before, tree_hash(tree)) == ("a/x",)


def test_a_cut_look_says_so_and_judges_what_it_saw(tree: Path) -> None:
    before = tree_hash(tree, most=2)
    assert before.cut
    (tree / "zz").write_text("unseen")
    assert changed(before, tree_hash(tree, most=2)) == ()
