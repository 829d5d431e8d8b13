"""A packed copy is proposed where it was measured to pay, and nowhere else."""

import json
import random
from dataclasses import replace

import pytest

from hotlap.core.protocol import DatasetReport, PackedComparison, ProfilePayload, decode
from hotlap.profile.findings import proposed, seen_in
from hotlap.profile.packing import ENCODED, EXPLAIN, PAGE, proposal, step_ratio, with_packing

STEP = 0.1


@pytest.fixture
def photos(tmp_path):
    """Files as a dataset that numbers classes alphabetically would read them."""
    taken = {"files": [], "labels": [], "ids": [], "seconds": 0.004}
    for label, name in enumerate(["ant", "bee", "cow"]):
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for number in range(8):
            path = folder / f"{number}.jpg"
            path.touch()
            taken["files"].append(str(path))
            taken["labels"].append(label)
    return taken


def payload(taken, *, own=0.004, packed=0.0004, wait=0.8, about=None, **how):
    noise = random.Random(0)
    pairs = [
        (own * noise.uniform(0.95, 1.05), packed * noise.uniform(0.95, 1.05)) for _ in range(6)
    ]
    dataset = {
        "kind": "Photos", "bases": ["__main__.Photos"], "place": "train.py:9", "length": 24,
        "part": False, "root": "", "batch_size": 16, "workers": 0, "shuffle": True,
        "draws": False, "taken": taken, **(about or {}),
    }  # fmt: skip
    dataset["packed"] = {
        "profile": "raw", "resize": [96, 64], "pairs": pairs, "samples": 24, "bytes": 18432.0,
        "transforms": [["Normalize", [[0.5, 0.4, 0.3], [1.0, 1.0, 1.0]]]], "sure": False,
        "scaled": True, **how,
    }  # fmt: skip
    seen = {
        "step": {"mean": STEP},
        "phases": {"data": {"mean": wait * STEP}, "forward": {"mean": (1 - wait) * STEP}},
        "places": {"loader": "train.py:30", "dataset": "train.py:12"},
        "facts": {"map_style": True, "loader_serial": True, "loaders": 1},
        "dataset": dataset,
    }
    return decode(ProfilePayload, json.loads(json.dumps(seen)))


@pytest.mark.parametrize("waiting", [0.0, 0.3, 0.9, 1.0])
def test_a_step_shrinks_by_what_is_waited_for_and_no_more(waiting):
    for reading in (1.0, 2.0, 50.0, 1e9):
        for workers in (0, 2):
            ratio = step_ratio(waiting, reading, workers)
            assert 1.0 <= ratio <= 1.0 / max(1e-3, 1.0 - waiting) + 1e-9
            assert ratio <= reading + 1e-9
    assert step_ratio(waiting, 1.0, 0) == pytest.approx(1.0)
    assert step_ratio(waiting, 0.5, 0) <= 1.0


def test_it_says_what_was_measured_what_to_type_and_where(photos, tmp_path):
    found = proposal(payload(photos), tmp_path)
    assert found.place == "train.py:9"
    assert found.expected == pytest.approx(1 / (0.2 + 0.08), rel=0.1)
    assert found.least < found.expected < found.most == pytest.approx(5.0)
    assert "24 of your files" in found.evidence
    assert found.lines == (
        "hotlap pack photos packed --profile raw --resize 96x64",
        "from hotlap.data import Loader, transforms",
        'loader = Loader("packed", batch_size=16, shuffle=True, '
        "transform=[transforms.Normalize((0.5, 0.4, 0.3), (1.0, 1.0, 1.0))])",
    )
    assert len(found.notes) == 1
    assert "--resize 96 (short side" in found.notes[0]


def test_a_resize_that_its_pixels_told_needs_no_note(photos, tmp_path):
    assert proposal(payload(photos, sure=True), tmp_path).notes == ()


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([["Resize", [[96, 96]]]], "transforms.Resize((96, 96))"),
        ([["Resize", [96]], ["CenterCrop", [[96, 96]]]],
         "transforms.Resize(96), transforms.CenterCrop(96)"),
        ([["RandomResizedCrop", [[96, 64]]]], "transforms.RandomResizedCrop((96, 64))"),
    ],
)  # fmt: skip
def test_transforms_are_written_as_they_were_run(photos, tmp_path, steps, code):
    found = proposal(payload(photos, transforms=steps), tmp_path)
    assert f"transform=[{code}])" in found.code[1]


def test_it_joins_the_other_remedies_of_the_wait(photos, tmp_path):
    seen = payload(photos)
    before = proposed(seen_in(seen, {}))
    found = with_packing(before, seen, tmp_path)
    (waits,) = [f for f in found if f.remedies[0].phases == ("data",)]
    names = [remedy.id for remedy in waits.remedies]
    assert {"packed_dataset", "loader_workers"} <= set(names)
    (alone,) = with_packing([], seen, tmp_path)
    assert alone.what == "waiting for data: 80% of a step, 80.0 ms"
    assert alone.remedies[0].lines[0].startswith("hotlap pack photos packed")


@pytest.mark.parametrize(
    "change",
    [
        {"wait": 0.05},
        {"packed": 0.004},
        {"packed": 0.0037},
        {"packed": 0.02},
        {"about": {"workers": 4}, "wait": 0.05},
    ],
    ids=["nothing waits", "no faster", "hardly faster", "slower", "workers keep up"],
)
def test_where_it_would_not_pay_it_is_left_alone(photos, tmp_path, change):
    seen = payload(photos, **change)
    assert proposal(seen, tmp_path) is None
    before = proposed(seen_in(seen, {}))
    assert with_packing(before, seen, tmp_path) == before


@pytest.mark.parametrize(
    "dataset",
    [None, *(DatasetReport(**given) for given in (
        {}, {"why": "no"}, {"failed": "no"}, {"packed": PackedComparison()}))],
    ids=str,
)  # fmt: skip
def test_what_was_not_compared_is_left_alone(photos, tmp_path, dataset):
    assert proposal(replace(payload(photos), dataset=dataset), tmp_path) is None


def test_a_pack_of_crops_says_which_side_and_which_transforms(photos, tmp_path):
    steps = [["RandomResizedCrop", [[224, 224]]], ["RandomHorizontalFlip", []]]
    seen = payload(photos, about={"draws": True}, profile="jpeg256", resize=256, transforms=steps)
    found = proposal(seen, tmp_path)
    assert found.command.endswith("--profile jpeg256 --resize 256")
    crop = "transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()"
    assert crop in found.code[1]
    assert found.notes == (ENCODED,)


@pytest.mark.parametrize(
    ("about", "how"),
    [
        ({"draws": True}, {"simpler": True}),
        ({"length": 20}, {}),
        ({}, {"scaled": False}),
    ],
    ids=["random transforms of one's own", "fewer samples than files", "an unknown scale"],
)
def test_what_would_not_train_as_the_script_does_is_not_printed(photos, tmp_path, about, how):
    found = proposal(payload(photos, about=about, **how), tmp_path)
    assert found.lines[0].startswith("hotlap pack photos packed --profile")
    assert found.lines[1:] == (EXPLAIN,)
    assert found.remedy().says.endswith(PAGE)
    assert found.evidence.endswith("from a packed copy (24 files)")


def test_a_copy_read_without_the_random_transforms_promises_no_least_gain(photos, tmp_path):
    whole = proposal(payload(photos), tmp_path)
    assert "at least" in whole.says
    part = proposal(payload(photos, about={"draws": True}, simpler=True), tmp_path)
    assert "at most about" in part.says
    assert "at least" not in part.says


def test_torchvisions_folder_is_pointed_at_where_it_is_made(photos, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import torchvision as tv\n\ndata = tv.datasets.ImageFolder('photos')\n")
    about = {
        "place": "", "kind": "ImageFolder", "root": str(tmp_path / "photos"),
        "bases": ["torchvision.datasets.folder.ImageFolder"],
    }  # fmt: skip
    seen = payload(photos, about=about)
    found = proposal(replace(seen, sampled={str(script): {}}), tmp_path)
    assert found.place == "train.py:3"
    assert found.command.startswith("hotlap pack photos packed")
    assert proposal(seen, tmp_path).place == "train.py:30"
