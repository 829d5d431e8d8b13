"""Options of `hotlap race` that cannot be taken."""

import sys

import click
import pytest
from click.testing import CliRunner

from hotlap.cli.race import _again, race


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--max-slowdown", "nan"),
        ("--max-slowdown", "inf"),
        ("--max-slowdown", "0.05"),
        ("--budget", "0"),
        ("--precision", "-1"),
        ("--min-effect", "5"),
        ("--min-effect", "nan"),
    ],
)
def test_nonsense_is_refused_before_anything_runs(option: str, value: str) -> None:
    done = CliRunner().invoke(race, [option, value, "a.py", "--", "b.py"])
    assert done.exit_code == 2
    assert option in done.output


def test_the_command_to_race_longer_keeps_the_other_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ["--budget", "1m", "--seed", "3", "a.py", "--lr", "1", "--", "b.py"]
    monkeypatch.setattr(sys, "argv", ["hotlap", "race", *words])
    ctx = click.Context(race)
    ctx.params, ctx.meta["second"] = {"command": ("a.py", "--lr", "1")}, ("b.py",)
    assert _again(ctx, 78.4) == "hotlap race --budget 90s --seed 3 a.py --lr 1 -- b.py"
