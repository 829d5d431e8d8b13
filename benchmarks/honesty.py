"""How often a race of a script against itself sees a difference, and whether it sees a planted one.

`python -m benchmarks.honesty [RACES [PLANTED [SECONDS]]]`: races of a small training script against
itself, every second one while another process comes and goes on all cores, then races against the
same script with a sleep of 10 % of each step, under the same weather. The steps are some
milliseconds long, so that the sleep is about as long as it was asked to be.
"""

import contextlib
import multiprocessing
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import record
from hotlap.core.machine import detect
from hotlap.core.spec import Mode
from hotlap.trial.launch import Setting
from hotlap.trial.race import race
from hotlap.trial.side import Side
from hotlap.trial.stats import Verdict
from hotlap.trial.stopping import StoppingRules

SCRIPT = Path(__file__).parent.parent / "tests" / "scripts" / "mlp.py"
WIDE = ("--width", "2048")


def _burn(seed: int) -> None:
    """Keep a core busy for 0.2 to 3 s, rest as long, and so on."""
    draw = random.Random(seed)
    while True:
        end = time.monotonic() + draw.uniform(0.2, 3.0)
        while time.monotonic() < end:
            sum(range(1000))
        time.sleep(draw.uniform(0.2, 3.0))


@contextlib.contextmanager
def weather(*, busy: bool, seed: int) -> Iterator[None]:
    """Another process on every core that comes and goes."""
    cores = detect().logical_cores if busy else 0
    burners = [
        multiprocessing.Process(target=_burn, args=(seed,), daemon=True) for _ in range(cores)
    ]
    for burner in burners:
        burner.start()
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()


@contextlib.contextmanager
def itself(folder: Path, *arguments: str) -> Iterator[tuple[Side, Side]]:
    """The script as both sides, with these arguments on B's."""
    a, b = (
        Side(
            Setting(
                (sys.executable, str(SCRIPT), *words), Mode.RACE, seed=0,
                scratch=folder / "scratch", output=folder / "log",
            )
        )
        for words in (WIDE, (*WIDE, *arguments))
    )  # fmt: skip
    try:
        yield a, b
    finally:
        a.close()
        b.close()


def once(seconds: float, *arguments: str) -> dict[str, Any]:
    """One race of the script against itself with these arguments on B's side."""
    with tempfile.TemporaryDirectory() as folder, itself(Path(folder), *arguments) as sides:
        return asdict(race(*sides, StoppingRules(seconds=seconds)))


def main(races: int, planted: int, seconds: float) -> None:
    """Run them all and write the record."""
    rows = []
    for index in range(races + planted):
        slow = index >= races
        arguments = ("--slow-down", "0.1") if slow else ()
        with weather(busy=index % 2 == 1, seed=index):
            row = {"planted": slow, "busy": index % 2 == 1, **once(seconds, *arguments)}
        rows.append(row)
        e = row["estimate"]
        verdict = f"{row['verdict']} {e['ratio']:.3f} [{e['low']:.3f}, {e['high']:.3f}]"
        print(index, f"planted={slow} busy={row['busy']}", verdict, e["pairs"], flush=True)
    calls = {Verdict.FASTER, Verdict.SLOWER}
    summary = {
        "races against itself": races,
        "of them called faster or slower": sum(
            row["verdict"] in calls for row in rows if not row["planted"]
        ),
        "planted 10 % slow-downs": planted,
        "of them found": sum(row["verdict"] == "slower" for row in rows if row["planted"]),
    }
    command = f"python -m benchmarks.honesty {races} {planted} {seconds:.0f}"
    record.write(f"honesty-{races}-{planted}-{seconds:.0f}s", command, rows, summary)


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    main(*given, *(40, 10, 30)[len(given) :])
