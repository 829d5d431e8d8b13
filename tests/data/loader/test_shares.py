import pytest

from hotlap.data.loader.choose import Wish, shares


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
