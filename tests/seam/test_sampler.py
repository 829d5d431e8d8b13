"""How the sampler of lines takes turns at the interpreter's lock."""

import os
import sys
import threading
import time

import pytest

from hotlap.seam.probe.phases import OTHER
from hotlap.seam.probe.rest import Rest
from hotlap.seam.probe.sampler import SWITCH, SWITCH_ALONE, Moment, Sampler

pytestmark = pytest.mark.clock

LONGEST_WAIT = 30.0
"""Seconds that a test gives the sampler to notice something, on a busy machine."""


@pytest.fixture
def thread():
    """Starts a thread that does something again and again, and ends it behind the test."""
    end, begun = threading.Event(), []

    def start(doing):
        def run():
            while not end.is_set():
                doing()

        begun.append(threading.Thread(target=run))
        begun[-1].start()

    yield start
    end.set()
    for one in begun:
        one.join()


def sampler():
    """One of this thread."""
    this = threading.get_ident()
    return Sampler(lambda: this, lambda: Moment(0, OTHER, "other"), Rest())


def comes(interval):
    """Whether the switch interval becomes this one while this thread computes."""
    until = time.monotonic() + LONGEST_WAIT
    while time.monotonic() < until:
        if round(sys.getswitchinterval(), 6) == interval:
            return True
        sum(range(1000))
    return False


def test_turns_are_shortest_beside_threads_that_only_wait(thread):
    thread(lambda: time.sleep(0.05))
    with sampler().sampling():
        assert comes(SWITCH_ALONE)


def test_turns_are_longer_beside_a_thread_that_computes(thread):
    thread(lambda: sum(range(1000)))
    with sampler().sampling():
        assert comes(SWITCH)


def test_turns_are_as_before_when_it_ends(thread):
    before = sys.getswitchinterval()
    thread(lambda: time.sleep(0.05))
    with sampler().sampling():
        assert comes(SWITCH_ALONE)
    assert sys.getswitchinterval() == before


def test_what_the_program_sets_meanwhile_is_what_it_finds_afterwards():
    before = sys.getswitchinterval()
    try:
        with sampler().sampling():
            assert comes(SWITCH_ALONE)
            sys.setswitchinterval(0.003)
        assert round(sys.getswitchinterval(), 6) == 0.003
    finally:
        sys.setswitchinterval(before)


def test_a_forked_child_has_the_programs_turns():
    before = sys.getswitchinterval()
    one = sampler()
    with one.sampling():
        assert comes(SWITCH_ALONE)
        child = os.fork()
        if not child:
            try:
                one.forked()
            finally:
                os._exit(sys.getswitchinterval() != before)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
