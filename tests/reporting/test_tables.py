"""Tables at any width: nothing is cut off, no cell is broken."""

import subprocess

import pytest
from rich.text import Text

from hotlap.reporting.tables import Column, Row, columns, table
from hotlap.reporting.words import pasted, shortened

WANTED = (Column("size"), Column("rate"), Column("ratio (interval)"), Column("time", spare=1))
ROWS = [
    Row(("64", "21,400", "1.00x", "3.6 ms"), "the script's own, fastest of all that were timed"),
    Row(("1024", "33,412", "1.30x (1.20 to 1.40)", "3.9 ms"), "largest", style="green"),
]
CELLS = ("21,400", "33,412", "1.00x", "1.30x (1.20 to 1.40)", "largest")


def lines(width: int) -> list[str]:
    return table(WANTED, ROWS, width).plain.splitlines()


@pytest.mark.parametrize("width", range(40, 140, 3))
def test_no_line_is_too_long_and_no_word_is_lost(width: int) -> None:
    found = lines(width)
    assert max(map(len, found)) <= width
    words = " ".join(" ".join(found).split())
    assert all(cell in words for cell in CELLS)
    assert "the script's own, fastest of all that were timed" in words
    assert all(line == line.rstrip() for line in found)


def test_notes_stand_beside_their_rows_in_a_column() -> None:
    head, first, second = lines(120)
    assert head.split() == ["size", "rate", "ratio", "(interval)", "time"]
    assert first.index("the script's own") == second.index("largest")


def test_notes_stand_below_where_most_have_no_room() -> None:
    assert [line.strip() for line in lines(72)][2::2] == [ROWS[0].note, ROWS[1].note]


def test_spare_columns_go_where_that_gives_the_others_room() -> None:
    assert "time" in lines(60)[0]
    assert "time" not in lines(41)[0]
    assert "3.9 ms" not in "".join(lines(41))


def test_names_stand_on_lines_of_their_own_where_they_are_long() -> None:
    rows = [Row(("a name of many words", "1.00", "2.00")), Row(("b", "10.00", "3.00"))]
    found = table(columns("name", "first", "second"), rows, 24).plain.splitlines()
    assert found[2:] == ["a name of many words", "     1.00    2.00", "b", "    10.00    3.00"]


def test_each_cell_stands_behind_its_title_at_last() -> None:
    rows = [Row(("a", "1" * 30, "2" * 30), "why")]
    found = table(columns("", "first", "second"), rows, 44).plain.splitlines()
    assert found == ["a", f"    first {'1' * 30},", f"    second {'2' * 30}", "    why"]


def test_headings_make_no_column_wider_and_empty_columns_go() -> None:
    rows = [Row(["a heading of some length"], heading=True), Row(("x", "", "1"))]
    assert table(columns("n", "empty", "v"), rows, 80).plain.splitlines() == [
        "n  v", "a heading of some length", "x  1",
    ]  # fmt: skip
    assert table(columns("n"), [], 80).plain == ""


def test_a_cell_keeps_its_style_in_a_row_that_has_one() -> None:
    drawn = table(columns("", ""), [Row((Text("a", "red"), "b"), style="dim")], 80)
    assert [str(span.style) for span in drawn.spans] == ["dim", "red"]


def test_a_line_is_shortened_word_by_word() -> None:
    text = "where the time of a step goes in this program of 1234567 steps"
    assert shortened(text, 80).plain == text
    for width in range(41, 60):
        kept = shortened(text, width).plain
        assert len(kept) < width
        assert set(kept.removesuffix(" …").split()) <= set(text.split())
    assert shortened("x" * 90, 50).plain == "x" * 47 + " …"


def test_a_command_is_broken_as_a_shell_takes_it() -> None:
    command = "hotlap tune --budget 4m python train.py --name 'a long name' --width 256"
    assert pasted(command, 100, "  ") == f"  {command}"
    found = pasted(command, 40, "  ").split("\n")
    assert max(map(len, found)) <= 40
    assert all(line.endswith(" \\") for line in found[:-1])
    assert "".join(line.removesuffix("\\").lstrip() for line in found) == command


def test_a_list_of_names_that_is_too_long_for_a_line_stays_one_word() -> None:
    names = ",".join(f"technique_{i}" for i in range(9))
    command = f"echo --only {names} python train.py"
    found = pasted(command, 60, "    ")
    assert names in found
    assert all(line.startswith("    ") for line in found.split("\n"))
    assert shell(found) == shell(command)
    assert shell(found).split()[1] == names
    quoted = "echo 'one name, " + "a,b," * 20 + "'"
    assert shell(pasted(quoted, 60, "")) == shell(quoted)


def test_a_cell_magic_stays_on_the_line_that_ipython_reads() -> None:
    magic = "%%hotlap tune --budget 17m --only no_grad_eval,channels_last"
    assert pasted(magic, 40, "  ") == f"  {magic}"


def shell(command: str) -> str:
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout
