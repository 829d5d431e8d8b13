"""`hotlap bisect`."""

import math
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hotlap.cli.common import (
    COMMAND,
    INTERRUPTED,
    NEGATIVE,
    Number,
    common,
    console,
    folder,
    only_one,
    print_json,
    time_span,
    words_argument,
)
from hotlap.cli.isolated import isolated
from hotlap.cli.race import TwoCommands, Words, sides_of
from hotlap.core.errors import TrialFailedError, UsageError

if TYPE_CHECKING:
    from hotlap.reporting.bisect_text import Follow
    from hotlap.trial.bisect import Step
    from hotlap.trial.race import RaceResult
    from hotlap.trial.revisions import Commit, Repository
    from hotlap.trial.side import Side


@click.command(cls=TwoCommands, context_settings=COMMAND)
@click.option(
    "--budget",
    default="1m",
    show_default=True,
    type=time_span,
    metavar="TIME",
    help="Time for one race; a commit that it cannot place gets twice as long once more.",
)
@click.option(
    "--min-slowdown",
    default=1.05,
    show_default=True,
    type=Number(1, 100, min_open=True),
    metavar="RATIO",
    help="Smallest slow-down that is worth a search.",
)
@click.option("--seed", default=0, show_default=True, help="Seed where a script sets none.")
@common
@words_argument("revisions", "GOOD [BAD] -- CMD...")
@click.pass_context
def bisect(ctx: click.Context, budget: float, min_slowdown: float, seed: int, patience: float,
           quiet: bool, as_json: bool, revisions: Words) -> None:  # fmt: skip
    """Find the commit after GOOD, up to BAD (HEAD), that slowed a training step of CMD.

    Each step of the search races a commit against GOOD. Your files, branches and index stay as
    they are.
    """
    from hotlap.reporting import bisect_text
    from hotlap.trial.bisect import Bisection, Search, Speed
    from hotlap.trial.command import normalise
    from hotlap.trial.revisions import Repository

    if not ctx.meta["second"] or not 1 <= len(revisions) <= 2:
        raise UsageError("a revision and a command are needed", "hotlap bisect GOOD [BAD] -- CMD")
    repository = Repository.around(Path.cwd())
    good, bad = map(repository.commit, (*revisions, "HEAD")[:2])
    commits = repository.between(good, bad)
    only_one(ctx)
    kept = isolated(ctx, quiet=quiet or as_json)
    follow = bisect_text.Follow(console(err=True), enabled=not (quiet or as_json))
    command = normalise(ctx.meta["second"])
    with (
        follow.showing(),
        Races(repository, command, good, seed, patience, budget, follow) as races,
    ):
        follow.begin(good, bad, len(commits))
        whole = races.against(bad, 1 / min_slowdown)
        follow.step(whole, len(commits))
        if whole.speed is Speed.SLOW:
            middle = math.sqrt(whole.ratio)
            search = Search(commits, lambda c: races.against(c, middle), follow.step)
            result = search.run()
            result = Bisection(result.suspects, (whole, *result.steps), result.interrupted)
        else:
            result = Bisection((), (whole,))
    if as_json:
        print_json(bisect_text.document(result) | kept.document())
    else:
        bisect_text.show(console(), result, good, bad, brief=quiet)
    ctx.exit(INTERRUPTED if result.interrupted else 0 if result.suspects else NEGATIVE)


class Races:
    """Races of commits against the fast revision, whose process serves all of them."""

    def __init__(self, repository: "Repository", command: Words, good: "Commit",
                 seed: int, patience: float, seconds: float, follow: "Follow") -> None:  # fmt: skip
        self._repository, self._command, self._good = repository, command, good
        self._seed, self._patience, self._seconds = seed, patience, seconds
        self._follow = follow
        self._below = folder() / "revisions"
        self._stack = ExitStack()

    def __enter__(self) -> "Races":
        tree = self._stack.enter_context(self._repository.checked_out(self._good, self._below))
        self._fast_command = self._repository.command_in(tree, self._command)
        return self

    def __exit__(self, *about: object) -> None:
        self._stack.close()

    def against(self, commit: "Commit", threshold: float) -> "Step":
        """Place a commit on one side of a ratio (fast time over its time)."""
        from hotlap.trial.bisect import Speed, Step

        self._follow.racing(commit)
        with self._repository.checked_out(commit, self._below) as tree:
            command = self._repository.command_in(tree, self._command)
            with sides_of((self._fast_command, command), self._seed, self._patience) as sides:
                try:
                    sides[0].ready()  # a failure of the fast revision ends the search
                    found = self._race(sides, threshold)
                except TrialFailedError as error:
                    if sides[0].trial is None:
                        raise
                    return Step(commit, Speed.UNKNOWN, math.nan, 0.0, math.inf, str(error))
        e = found.estimate
        speed = {True: Speed.SLOW, False: Speed.FAST, None: Speed.UNKNOWN}[found.too_slow]
        reason = "" if found.too_slow is not None else "the interval stayed too wide"
        return Step(commit, speed, e.ratio, e.low, e.high, reason)

    def _race(self, sides: "tuple[Side, Side]", threshold: float) -> "RaceResult":
        from hotlap.trial.race import race
        from hotlap.trial.stopping import StoppingRules

        for seconds in (self._seconds, 2 * self._seconds):
            rules = StoppingRules(seconds=seconds, threshold=threshold)
            found = race(*sides, rules, self._follow.pair)
            if found.too_slow is not None:
                break
        return found
