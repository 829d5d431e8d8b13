"""Disk, /dev/shm, the workers' memory, malloc: told where measured, left alone elsewhere."""

from dataclasses import replace

import pytest

from hotlap.core.protocol import ProfilePayload, decode
from hotlap.profile import storage
from hotlap.profile.findings import proposed, seen_in
from hotlap.profile.rates import Rates
from hotlap.profile.storage import with_storage
from hotlap.profile.worker_memory import growth

MIB = 1 << 20
SLOW = Rates(50e6, 500e6, 2e9, 40e3, {"/fast": 90e6})


@pytest.fixture(autouse=True)
def measured(monkeypatch):
    """A disk of 50 MB/s; `asked` lists what was measured."""
    asked = []

    def rates(files):
        asked.append(list(files))
        return SLOW

    monkeypatch.setattr(storage, "rates", rates)
    return asked


def payload(wait=0.6, dataset=None, **resources):
    taken = {"files": ["/data/1.jpg", "/data/2.jpg"]}
    seen = {
        "step": {"mean": 0.1},
        "phases": {"data": {"mean": wait * 0.1}, "forward": {"mean": (1 - wait) * 0.1}},
        "places": {"loader": "train.py:30", "dataset": "train.py:12"},
        "facts": {"map_style": True, "loader_serial": True, "loaders": 1},
        "dataset": {"place": "train.py:9", "taken": taken} if dataset is None else dataset,
        "resources": {"disk": 0.0, "read": 0.0, "files": [], "workers": [], **resources},
    }
    return decode(ProfilePayload, seen)


def told(seen, found=()):
    return {remedy.id: remedy for one in with_storage(found, seen) for remedy in one.remedies}


def test_a_disk_that_gives_all_it_can_is_told_with_what_was_measured(measured):
    remedy = told(payload(disk=40e6))["storage"]
    assert measured == [["/data/1.jpg", "/data/2.jpg"]]
    for part in (
        "at 40 MB/s",
        "50 MB/s cold in reads of 40 kB in random order",
        "500 MB/s in one run",
        "2,000 MB/s from RAM",
        "90 MB/s cold below /fast",
    ):
        assert part in remedy.says
    assert remedy.place == "train.py:9"
    assert [note for note in remedy.notes if "hotlap pack" in note]
    assert [note for note in remedy.notes if "/fast would be read 1.8x as fast" in note]


def test_it_stands_in_the_finding_of_the_wait():
    seen = payload(disk=40e6)
    before = proposed(seen_in(seen, {}))
    after = with_storage(before, seen)
    assert len(after) == len(before)
    (waits,) = [f for f in after if f.remedies[0].phases == ("data",)]
    assert {"storage", "loader_workers"} <= {remedy.id for remedy in waits.remedies}


@pytest.mark.parametrize(
    ("seen", "measures"),
    [
        (payload(disk=0.0), False),
        (payload(disk=0.5e6), False),
        (payload(disk=40e6, wait=0.05), False),
        (payload(disk=40e6, dataset={}), False),
        (payload(disk=10e6), True),
    ],
    ids=["from RAM", "next to nothing", "nothing waits", "no file known", "far from its limit"],
)
def test_a_disk_that_nothing_waits_for_is_left_alone(seen, measures, measured):
    assert "storage" not in told(seen)
    assert bool(measured) is measures


def test_a_disk_that_could_not_be_measured_is_left_alone(monkeypatch):
    monkeypatch.setattr(storage, "rates", lambda _: None)
    assert told(payload(disk=40e6)) == {}


@pytest.mark.parametrize("other", [{}, {"/slow": 55e6}])
def test_no_other_place_is_advised_without_a_faster_rate(monkeypatch, other):
    monkeypatch.setattr(storage, "rates", lambda _: Rates(50e6, 60e6, 2e9, 40e3, other))
    assert told(payload(disk=40e6))["storage"].notes == ()


def test_large_files_are_those_held_open(measured):
    told(payload(disk=40e6, dataset={}, files=["/data/all.h5"]))
    assert measured == [["/data/all.h5"]]


SHM = {"needed": 152 * MIB, "free": 64 * MIB, "size": 64 * MIB, "batch": 19 * MIB, "batches": 8}


def test_too_small_a_shared_memory_is_told():
    (finding,) = with_storage([], payload(shm=SHM))
    assert finding.what == (
        "/dev/shm has 64 MiB free of 64 MiB, the loader's batches may need 152 MiB"
    )
    assert finding.place == "train.py:30"
    assert "8 batches of 19.0 MiB" in finding.remedies[0].says


@pytest.mark.parametrize("shm", [None, {**SHM, "free": 200 * MIB}], ids=["unknown", "enough"])
def test_enough_shared_memory_is_left_alone(shm):
    assert with_storage([], payload(shm=shm)) == []


def line(*sizes, every=1.0):
    return [(number * every, size * MIB) for number, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("series", "grown"),
    [
        (line(10, 20, 30, 40, 50), 40),
        (line(10, 40, 60, 75), 65),
        (line(30, 38, 42, 44, 45, 45, 54), 0),
        (line(10, 60, 80, 84, 85), 0),
        (line(50, 50, 50, 50), 0),
        (line(50, 40, 30), 0),
        (line(10, 50, 90), 0),
        (line(10, 50, 90, 130, every=0.1), 0),
        ([], 0),
    ],
    ids=[
        "steady",
        "slowing",
        "a last jump",
        "warming up",
        "flat",
        "shrinking",
        "three looks",
        "too short",
        "none",
    ],
)
def test_growth_is_what_goes_on_to_the_end(series, grown):
    size, pace = growth(series)
    assert size == grown * MIB
    assert (pace > 0) is bool(grown)


SAMPLES = {"path": "samples", "kind": "list", "length": 1_500_000, "bytes": 250 * MIB}


BUSY = {"computed_by_workers": 0.4, "core_wait": 0.5}


def test_workers_on_cores_that_the_training_waits_for_are_a_problem():
    (found,) = with_storage((), payload(wait=0.05, **BUSY))
    (remedy,) = found.remedies
    assert (remedy.id, found.place, found.problem) == ("busy_workers", "train.py:12", True)
    assert "they do 40% of all" in found.what
    assert found.share == pytest.approx(0.4)
    (short,) = with_storage((), payload(wait=0.05, **BUSY | {"core_wait": 0.15}))
    assert short.share == pytest.approx(0.15), "no more than what is waited"


@pytest.mark.parametrize(
    "other", [{"core_wait": 0.05}, {"computed_by_workers": 0.2}, {"computed_by_workers": 0.0}]
)
def test_workers_that_leave_cores_for_the_training_are_none(other):
    assert not with_storage((), payload(wait=0.05, **BUSY | other))


def test_growing_workers_are_told_with_the_list_they_copy():
    seen = payload(workers=[line(10, 20, 30, 40)] * 2, objects=[SAMPLES], kept=0)
    (finding,) = with_storage([], seen)
    assert finding.what.startswith("the memory of 2 loader workers grew by 60 MiB, and goes on")
    (remedy,) = finding.remedies
    assert "samples is a list of 1,500,000 Python objects, about 250 MiB" in remedy.says
    assert "numpy array" in remedy.says
    assert "hotlap pack" in remedy.says
    assert remedy.notes == ()


def test_growth_without_a_list_is_told_as_that():
    (finding,) = with_storage([], payload(workers=[line(10, 40, 70, 100)], objects=[]))
    assert "no long list" in finding.remedies[0].says


@pytest.mark.parametrize(
    "workers",
    [[line(100, 100, 100)] * 8, [line(10, 60, 62, 62)] * 8, [line(10, 11, 12)] * 2, []],
    ids=["steady", "warming up", "a little", "no workers"],
)
def test_workers_that_do_not_grow_are_left_alone(workers):
    seen = payload(workers=workers, objects=[SAMPLES], kept=999 * MIB)
    assert with_storage([], seen) == []


def test_growth_that_no_list_explains_has_to_be_large():
    little = [line(30, 36, 44, 52)] * 2
    assert with_storage([], payload(workers=little, objects=[])) == []
    (finding,) = with_storage([], payload(workers=little, objects=[SAMPLES]))
    assert "2 loader workers grew by 44 MiB" in finding.what


def test_what_malloc_keeps_is_a_hint_where_workers_grow():
    grows = [line(10, 40, 70, 100)]
    (finding,) = with_storage([], payload(workers=grows, kept=900 * MIB))
    assert any("MALLOC_ARENA_MAX" in note for note in finding.remedies[0].notes)
    (little,) = with_storage([], payload(workers=grows, kept=9 * MIB))
    assert little.remedies[0].notes == ()


def test_a_payload_without_resources_is_left_alone():
    assert with_storage([], replace(payload(), resources=None)) == []
