import pytest

from hotlap.core.protocol import Holder
from hotlap.profile.retained import binding

SOURCE = """\
class Meter:
    def __init__(self):
        self.values = []

    def add(self, value):
        self.values.append(value)

def before(outs):
    outs.append(0)

def main(model):
    running = 0.0
    outs, table, mean = [], {}, 0.0
    for step in range(9):
        loss = model()
        running += loss
        outs.append(loss)
        table[step] = loss
        mean = 0.9 * mean + 0.1 * loss
    kept = [loss]

history = []
while True:
    history.append(main)

def late(box):
    for step in box.log:
        box.log.losses["all"].append(step)
"""


def holder(kind, name, function=0):
    return Holder(kind, name, "train.py", function)


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (holder("local", "running", 11), 16),
        (holder("local", "outs", 11), 17),
        (holder("local", "table", 11), 18),
        (holder("local", "mean", 11), 19),
        (holder("local", "kept", 11), 20),
        (holder("attribute", "values"), 6),
        (holder("global", "history"), 24),
        (holder("local", "box", 26), 28),
        (holder("local", "gone", 11), 0),
    ],
    ids=lambda value: value.name if isinstance(value, Holder) else "",
)
def test_the_line_that_adds(tmp_path, found, line):
    path = tmp_path / "train.py"
    path.write_text(SOURCE)
    assert binding(path, found) == line


@pytest.mark.parametrize("content", [None, "def broken(:\n"])
def test_no_source_no_line(tmp_path, content):
    path = tmp_path / "train.py"
    if content:
        path.write_text(content)
    assert binding(path, holder("local", "x", 1)) == 0
