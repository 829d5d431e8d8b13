from types import SimpleNamespace

import pytest
import torch

from hotlap.data.loader.choose import Wish, begun, shares
from hotlap.data.loader.local import AHEAD, Local
from hotlap.data.loader.plan import Step
from hotlap.data.loader.reading import Fetched


@pytest.mark.parametrize(
    ("workers", "threads", "cores", "wanted"),
    [
        (None, None, 1, (1, 1)),
        (None, None, 2, (2, 1)),
        (None, None, 24, (16, 2)),
        (None, None, 64, (16, 4)),
        (None, 2, 2, (1, 2)),
        (None, 8, 64, (8, 8)),
        (1, None, 6, (1, 6)),
        (4, None, 2, (4, 1)),
        (3, 5, 64, (3, 5)),
    ],
)
def test_decoding_is_shared_among_processes_and_their_threads(workers, threads, cores, wanted):
    assert shares(True, Wish(workers, threads, False), cores) == wanted


@pytest.mark.parametrize(
    ("workers", "cores", "wanted"), [(None, 2, (2, 1)), (None, 64, (64, 1)), (5, 2, (5, 1))]
)
def test_datasets_of_the_user_are_never_read_by_several_threads(workers, cores, wanted):
    assert shares(False, Wish(workers, None, False), cores) == wanted
    assert shares(False, Wish(workers, 4, False), cores) == wanted


class Noting:
    """A reader of batches that are their steps' places; it notes what it is asked, in order."""

    fills = changes = False
    threads = light = True

    def __init__(self):
        self.asked = []

    def ahead(self, step):
        self.asked.append(("ahead", step.delivered))

    def fetch(self, step, space):
        self.asked.append(("fetch", step.delivered))
        return Fetched(step.delivered)

    def present(self, value):
        return value


@pytest.mark.parametrize(
    ("device", "asked", "wanted"),
    [
        (False, None, 0),
        (True, None, 1),
        (False, 2, 2),
        (True, 2, 2),
    ],
)
def test_copies_get_a_thread_where_a_device_computes_meanwhile(monkeypatch, device, asked, wanted):
    monkeypatch.setattr(torch, "accelerator", SimpleNamespace(is_available=lambda: device))
    engine, first = begun(Noting(), Wish(None, asked, False), iter([]))
    assert isinstance(engine, Local)
    assert engine._threads == wanted
    assert not first


def test_without_threads_a_batch_is_read_when_asked_for_and_its_reader_told_before():
    reader, places = Noting(), range(1, AHEAD + 3)
    batches = Local(reader, 0).run(Step([], 0, place) for place in places)
    assert next(batches)[1].value == 1
    told = [("ahead", place) for place in places[: AHEAD + 1]]
    assert reader.asked == [*told, ("fetch", 1)]
    assert [fetched.value for _, fetched in batches] == [*places[1:]]
    assert reader.asked[AHEAD + 2 :][:2] == [("ahead", AHEAD + 2), ("fetch", 2)]
