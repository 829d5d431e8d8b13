"""What a session says of its techniques."""

import os

from hotlap.core.spec import Mode, Spec
from hotlap.seam.session import Session


def session():
    return Session(Spec("test", Mode.RUN, "", {"no_copy_from_numpy": {}, "cpu_threads": {}}))


def in_a_fork(act):
    pid = os.fork()
    if not pid:
        act()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def test_what_takes_hold_in_a_forked_worker_is_seen_by_its_parent():
    here = session()
    in_a_fork(lambda: here.held("cpu_threads", "train.py:3"))
    assert set(here.standing()["held"]) == {"cpu_threads"}


def test_what_took_hold_nowhere_is_not_held():
    here = session()
    in_a_fork(lambda: here.held("of another recipe"))
    in_a_fork(lambda: here.inert("cpu_threads", "one core"))
    assert here.standing()["held"] == {}


def test_the_places_of_what_took_hold_here_stay():
    here = session()
    here.held("no_copy_from_numpy", "train.py:7")
    in_a_fork(lambda: here.held("no_copy_from_numpy"))
    assert here.standing()["held"] == {"no_copy_from_numpy": ["train.py:7"]}
