"""When a race ends: every stopping rule in one table, which `_stop` in `trial/race.py` carries out.

| a race ends as soon as | reason |
|---|---|
| there is a verdict, and the interval is as narrow as `precision` asks | `DECIDED` |
| with `threshold`: the interval excludes it | `DECIDED` |
| with `until_gain`: the interval excludes a gain of `min_effect` | `DECIDED` |
| `seconds` are over, or `seconds_if_promising` for what looks like a gain | `TIME` |
| `until_gain` and `give_up`: the remaining time is unlikely (10 %) to show it | `FUTILE` |
| the deadline of a side comes, also within a block, which then does not count | `TIME` |
| `max_pairs` have been run | `PAIRS` |
| `lost()`: no verdict can help any more (`tune`: parity is broken) | `LOST` |
| the user interrupts it, and asked for what is known by then | `INTERRUPTED` |

Where a quarter of the time more is expected to bring a verdict, that is given as well.
But for the deadline, no rule applies before `fewest_pairs`, nor before the last launch has had
`PAIRS_OF_LAUNCH`. After a verdict of faster or slower `confirm_pairs` more are run: see
`RaceResult.fresh`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

PAIRS_OF_LAUNCH = 4


class StopReason(StrEnum):
    """Why a race ended."""

    DECIDED = "decided"
    TIME = "time"
    FUTILE = "futile"
    PAIRS = "pairs"
    LOST = "lost"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class StoppingRules:
    """What a race has to show, and how long it may take.

    Args:
        min_effect: smallest speed difference worth having, as a share (0.02 is 2 %).
        alpha: chance of ever being wrong, shared by `candidates` races against the same script.
        candidates: how many such races there are (Bonferroni).
        precision: half-width that the interval of log(ratio) has to reach.
        seconds: time for the race once both sides are ready, further launches included.
        until_gain: only a gain matters: stop when there is none, or none can be shown in time.
        seconds_if_promising: with `until_gain`, time for what looks like a gain.
        threshold: ratio to be told from; the race goes on until the interval excludes it.
        fewest_pairs: pairs of blocks that are run in any case.
        least_seconds: time before which no rule but the deadline applies either.
        max_pairs: the most pairs.
        launches: the most launches of both sides.
        same_within: relative difference up to which the two count as the same.
        confirm_pairs: fresh pairs after a verdict of faster or slower, where time allows; more of
            them where they are short (`CONFIRM_SECONDS`).
        plain_steps: what is raced acts in every step alike, so that plain steps show it where
            six pairs of whole epochs take more than `seconds`.
        give_up: whether a race that is unlikely to show a gain ends, for the sake of other races.
        whole_epochs: what is raced acts on what an epoch has once: blocks are whole epochs, however
            long one is.
        share_epoch: blocks are plain steps, to each of which is added its share of what an epoch
            has once, as seen in an epoch that each side runs before: a race of long epochs in less
            time than six pairs of them.
        unknown_change: nothing is known of what is raced: where a step of each takes other numbers
            of samples, times are by sample. Where loader workers read ahead a good part of an
            epoch, blocks are whole epochs if six pairs fit in `seconds`; else, if half of `seconds`
            holds an epoch of both, it is as with `share_epoch`.
        lost: asked before a verdict stands, and each time that the pairs have doubled.
        partial: an interrupt ends the race with what its pairs have shown, if there are any.
    """

    min_effect: float = 0.02
    alpha: float = 0.05
    candidates: int = 1
    precision: float | None = None
    seconds: float = 30.0
    until_gain: bool = False
    seconds_if_promising: float = 120.0
    threshold: float | None = None
    fewest_pairs: int = 6
    least_seconds: float = 0.0
    max_pairs: int = 4000
    launches: int = 6
    same_within: float = 0.05
    confirm_pairs: int = 6
    plain_steps: bool = False
    whole_epochs: bool = False
    share_epoch: bool = False
    unknown_change: bool = False
    give_up: bool = True
    lost: Callable[[], bool] = lambda: False
    partial: bool = False
