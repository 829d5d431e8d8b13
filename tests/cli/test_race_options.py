"""Options of `hotlap race` that cannot be taken."""

import pytest
from click.testing import CliRunner

from hotlap.cli.race import race


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
