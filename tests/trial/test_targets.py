"""Targets and the places that a metric's values are read from."""

import json

import pytest

from hotlap.core.errors import UsageError
from hotlap.trial.targets import SMOOTHED_STEPS, FileReader, OutputReader, SmoothedLoss, Target


@pytest.mark.parametrize(
    ("text", "value", "reached"),
    [
        ("val_acc>=0.97", 0.97, True),
        ("val_acc > 0.97", 0.97, False),
        ("loss<0.35", 0.3, True),
        ("loss <= 3.5e-1", 0.36, False),
        ("acc>=97%", 0.975, True),
        ("val/f1 >= .5", float("nan"), False),
    ],
)
def test_a_target_is_a_comparison(text, value, reached):
    assert Target.parse(text).reached_by(value) is reached


@pytest.mark.parametrize("text", ["val_acc", "0.97>=val_acc", "acc==1", "acc>=high", ""])
def test_anything_else_is_refused_with_an_example(text):
    with pytest.raises(UsageError) as caught:
        Target.parse(text)
    assert "val_acc>=0.97" in caught.value.hint


@pytest.mark.parametrize(
    "line",
    [
        "epoch 3: val_acc 0.971",
        "val acc: 0.971",
        "Val-Acc = 97.1%",
        "{'val_acc': 0.971}",
        '"val/acc": 9.71e-1, "x": 3',
    ],
)
def test_a_metric_is_found_in_the_output_however_it_is_printed(tmp_path, line):
    log = tmp_path / "log"
    log.write_text(f"val_accuracy 0.1\nloss: 3\n{line}\n")
    found = OutputReader(log, Target.parse("val_acc>=0.9").pattern).values()
    assert found == [pytest.approx(0.971)]


def test_lines_are_read_once_and_only_when_whole(tmp_path):
    log = tmp_path / "log"
    reader = OutputReader(log, Target.parse("acc>=1").pattern)
    assert reader.values() == []
    log.write_text("acc: 0.5\nacc: 0.")
    assert reader.values() == [0.5]
    with log.open("a") as file:
        file.write("75\racc: 0.8\n")  # a progress bar returns the carriage
    assert reader.values() == [0.75, 0.8]
    assert reader.values() == []


def test_csv_and_jsonl_files(tmp_path):
    table = tmp_path / "log.csv"
    table.write_text("step,val_acc\n1,0.5\n2,\n3,0.75\n")
    assert FileReader(lambda: table, "val_acc").values() == [0.5, 0.75]
    rows = tmp_path / "log.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in ({"loss": 1}, {"val_acc": 0.25})))
    assert FileReader(lambda: rows, "val_acc").values() == [0.25]
    assert FileReader(lambda: None, "val_acc").values() == []


def test_the_loss_is_smoothed_over_whole_windows():
    smoothed = SmoothedLoss()
    assert list(smoothed.add([1.0] * (SMOOTHED_STEPS - 1))) == []
    assert list(smoothed.add([1.0 + SMOOTHED_STEPS])) == [2.0]
