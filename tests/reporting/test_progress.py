import io
import sys

from hotlap.reporting.progress import Progress, progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_words_are_written_and_taken_away(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress(quiet=False) as said:
        said.steps(7, 200)
        assert "profiling step 7 of at most 200" in sys.stderr.getvalue()
        before = len(sys.stderr.getvalue())
    assert "step" not in sys.stderr.getvalue()[before:]
    assert len(sys.stderr.getvalue()) > before


def test_more_steps_than_asked_for_are_told_alone(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    Progress(on=True).steps(300, 200)
    assert "step 300" in sys.stderr.getvalue()
    assert "of 200" not in sys.stderr.getvalue()


def test_silent_when_quiet_or_piped(monkeypatch):
    for stream, quiet in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress(quiet=quiet) as said:
            said("waiting")
        assert stream.getvalue() == ""


def test_steps_name_their_bound_in_seconds(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    Progress(on=True).steps(4, 200, 20.0)
    assert "step 4 of at most 200, 0 s of at most 20 s" in sys.stderr.getvalue()


def test_a_long_wait_shows_its_time(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    clock = [100.0]
    monkeypatch.setattr("hotlap.reporting.progress.time.monotonic", lambda: clock[0])
    said = Progress(on=True)
    said("waiting for the first step")
    said.tick()
    assert "s)" not in sys.stderr.getvalue()
    clock[0] += 12
    said.tick()
    assert "waiting for the first step (12 s)" in sys.stderr.getvalue()
