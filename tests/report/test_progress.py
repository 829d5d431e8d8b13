import io
import sys

from hotlap.report.progress import Progress, progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_words_are_written_and_taken_away(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress(quiet=False) as said:
        said.steps(7, 200)
        assert "profiling step 7 of 200" in sys.stderr.getvalue()
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
