"""Which folder to pack, and what of a dataset does not follow from its folders."""

import shutil
from dataclasses import replace

import pytest

from hotlap.core.protocol import DatasetReport, decode
from hotlap.profile.layout import layout_of


def made(place, names, labels=None, **about):
    paths = [place / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    taken = {"files": [str(p) for p in paths], "labels": labels or [None] * len(paths)}
    usual = {"root": "", "bases": [], "part": False, "length": len(paths)}
    return decode(DatasetReport, {"taken": taken, **usual, **about})


def test_a_folder_for_each_class_carries_over(tmp_path):
    found = layout_of(made(tmp_path / "d", ["a/1.jpg", "b/1.jpg", "b/2.jpg"], [0, 1, 1]), tmp_path)
    assert (found.source, found.target, found.same) == ("d", "packed", True)


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["a/1.jpg", "b/1.jpg"], [1, 0]),
        (["a/1.jpg", "a/2.jpg", "b/1.jpg"], [0, 1, 1]),
        (["1.jpg", "2.jpg"], [0, 1]),
        (["a/1.jpg", "b/1.jpg"], None),
        (["a/x/1.jpg", "b/1.jpg"], [0, 1]),
    ],
)
def test_labels_that_would_be_others_are_seen(tmp_path, names, labels):
    found = layout_of(made(tmp_path / "d", names, labels), tmp_path)
    assert (found.source, found.same) == ("d", False)


def test_a_part_of_the_files_is_seen(tmp_path):
    names, labels = ["a/1.jpg", "b/1.jpg"], [0, 1]
    assert not layout_of(made(tmp_path / "d", names, labels, part=True), tmp_path).same
    fewer = made(tmp_path / "d", names, labels)
    (tmp_path / "d" / "a" / "readme.txt").touch()
    assert layout_of(fewer, tmp_path).same
    (tmp_path / "d" / "a" / "more.jpg").touch()
    assert not layout_of(fewer, tmp_path).same


def test_the_root_of_torchvisions_folder_is_believed(tmp_path):
    about = {
        "root": str(tmp_path / "d"),
        "bases": ["x.Mine", "torchvision.datasets.folder.ImageFolder"],
    }
    found = layout_of(made(tmp_path / "d", ["a/x/1.jpg", "b/1.jpg"], [5, 6], **about), tmp_path)
    assert (found.source, found.same) == ("d", True)


def test_a_source_elsewhere_is_named_in_full(tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    found = layout_of(made(tmp_path / "d", ["a/1.jpg", "b/1.jpg"], [0, 1]), here)
    assert found.source == str(tmp_path / "d")


@pytest.mark.parametrize("bases", [[], ["torchvision.datasets.folder.ImageFolder"]])
def test_files_that_were_gone_with_the_trial_are_to_be_made_first(tmp_path, bases):
    dataset = made(tmp_path / "d", ["a/1.jpg", "b/1.jpg"], [0, 1], root=str(tmp_path / "d"))
    shutil.rmtree(tmp_path / "d")
    found = layout_of(replace(dataset, bases=bases), tmp_path)
    assert found.source == "d"
    assert [note for note in found.notes if "run it once" in note]
