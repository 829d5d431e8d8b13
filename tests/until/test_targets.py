"""Targets and the places that a metric's values are read from."""

import json
import re

import pytest

from hotlap.core.errors import UsageError
from hotlap.until.targets import SMOOTHED_STEPS, FileReader, OutputReader, SmoothedLoss, Target


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


@pytest.mark.parametrize(
    ("pattern", "line", "values", "unread"),
    [
        (r"acc (\S+)", "acc 97.1%", [0.971], ""),
        (r"acc ([\d.]+)", "acc 97.1 %", [0.971], ""),
        (r"acc ([\d.]+)", "acc 0.5, f1 3%", [0.5], ""),
        (r"(acc)", "acc 0.5", [], "acc"),
        (r"acc( 0.5)?", "acc", [], "acc"),
    ],
)
def test_a_given_pattern(tmp_path, pattern, line, values, unread):
    log = tmp_path / "log"
    log.write_text(f"{line}\n")
    reader = OutputReader(log, re.compile(pattern))
    assert reader.values() == pytest.approx(values)
    assert reader.unread == unread


def test_values_that_are_no_finite_number_are_seen(tmp_path):
    log = tmp_path / "log"
    log.write_text("acc: nan\nacc: -inf\nacc info\nacc: 0.5")
    reader = OutputReader(log, Target.parse("acc>=1").pattern)
    assert list(map(str, reader.values())) == ["nan", "-inf"]
    assert reader.values(ended=True) == [0.5]  # the last line of a program that has ended


def test_csv_and_jsonl_files(tmp_path):
    table = tmp_path / "log.csv"
    table.write_text("step,val_acc\n1,0.5\n2,\n3,0.75\n")
    assert FileReader(lambda: table, "val_acc").values() == [0.5, 0.75]
    rows = tmp_path / "log.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in ({"loss": 1}, {"val_acc": 0.25})))
    assert FileReader(lambda: rows, "val_acc").values() == [0.25]
    assert FileReader(lambda: None, "val_acc").values() == []


def test_lines_of_a_file_that_are_no_rows_are_passed_over(tmp_path):
    rows = tmp_path / "log.jsonl"
    rows.write_text('{"acc": 0.5, \n{"acc": null}\n{"acc": 0.75}\n')
    assert FileReader(lambda: rows, "acc").values() == [0.75]


@pytest.mark.parametrize(
    ("mode", "text", "values"),
    [
        ("a", "\n2,0.5\n", [0.5]),
        ("w", "step,acc\n1,0.25\n", [0.25]),
        ("w", "step,acc\n" + "9,0.1\n" * 9, [0.1] * 9),
    ],
    ids=["appended", "shorter", "longer"],
)
def test_what_an_earlier_run_left_in_the_file_is_not_read(tmp_path, mode, text, values):
    log = tmp_path / "log.csv"
    log.write_text("step,acc\n1,0.99\n2,0.99" + "\n" * (mode == "w"))
    reader = FileReader(lambda: log, "acc", earlier=log)
    with log.open(mode) as file:
        file.write(text)
    assert reader.values() == values


def test_a_file_that_is_begun_anew_after_the_first_look_is_read_from_its_start(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("step,acc\n1,0.99\n2,0.99\n")
    reader = FileReader(lambda: log, "acc", earlier=log)
    assert reader.values() == []
    log.write_text("step,acc\n1,0.25\n2,0.5\n3,0.75\n")
    assert reader.values() == [0.25, 0.5, 0.75]


def test_the_loss_is_smoothed_over_whole_windows():
    smoothed = SmoothedLoss()
    assert list(smoothed.add([1.0] * (SMOOTHED_STEPS - 1))) == []
    assert list(smoothed.add([1.0 + SMOOTHED_STEPS])) == [2.0]
