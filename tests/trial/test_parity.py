import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotlap.core.technique import Numerics
from hotlap.trial.data_parity import DataUse
from hotlap.trial.parity import UNMOVED, Noise, Parity, compare, noise, not_finite

QUIET = Noise(deterministic=True, spread=(0.0,) * 200, repeats=200)
SEEDS = range(10)
SEED = {"data": 0}


def as_is(values: np.ndarray) -> np.ndarray:
    return values


def bfloat16(values: np.ndarray) -> np.ndarray:
    """Round to 8 significant bits, half to even."""
    bits = values.astype(np.float32).view(np.uint32)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return bits.view(np.float32).astype(values.dtype)


@cache
def train(
    data: int = 0,
    *,
    steps: int = 60,
    dtype: type = np.float64,
    cast: Callable[[np.ndarray], np.ndarray] = as_is,
    lr: float = 0.3,
    keep_gradients: float = 0.0,
    dropout: float = 0.0,
    order: int = 0,
    batch: int = 64,
) -> list[float]:
    """SGD on a two-layer tanh classifier; the loss of each step."""
    rng = np.random.default_rng(data)
    x = rng.normal(size=(2048, 20))
    labels = (x @ rng.normal(size=(20, 5)) + rng.normal(0, 2, (2048, 5))).argmax(axis=1)
    x = x.astype(dtype)
    weights: list[np.ndarray] = [
        (rng.normal(size=shape) / math.sqrt(shape[0])).astype(dtype)
        for shape in ((20, 32), (32, 5))
    ]
    gradients = [np.zeros_like(weight) for weight in weights]
    sampler, masks, losses = np.random.default_rng(order), np.random.default_rng(order), []
    for _ in range(steps):
        chosen = sampler.integers(0, len(x), 64)[:batch]
        hidden = np.tanh(cast(cast(x[chosen]) @ cast(weights[0])))
        mask = ((masks.random(hidden.shape) >= dropout) / (1 - dropout)).astype(dtype)
        logits = cast(cast(hidden * mask) @ cast(weights[1]))
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        row = np.arange(len(chosen))
        losses.append(float(-np.log(shares[row, labels[chosen]]).mean()))
        shares[row, labels[chosen]] -= 1
        back = (shares @ weights[1].T) * mask * (1 - hidden * hidden)
        fresh = [cast(x[chosen].T @ back), cast((hidden * mask).T @ shares)]
        for k in range(2):
            gradients[k] = fresh[k] / dtype(len(chosen)) + dtype(keep_gradients) * gradients[k]
            weights[k] = weights[k] - dtype(lr) * gradients[k]
    return losses


def kept_of(
    make: Callable[..., list[float]], candidate: Callable[..., list[float]], numerics: Numerics
) -> list[Parity]:
    """Parity on ten problems, of which the script is deterministic."""
    return [compare(make(seed), candidate(seed), numerics, QUIET) for seed in SEEDS]


HEALTHY = {
    "float32": (partial(train, dtype=np.float32), Numerics.ROUNDING),
    "bfloat16": (partial(train, cast=bfloat16), Numerics.PRECISION),
    "larger lr, said to change training": (partial(train, lr=0.45), Numerics.TRAINING),
}
FAULTS = {
    "lr 10 % up": partial(train, lr=0.33),
    "data half skipped": partial(train, batch=32),
    "gradients not zeroed": partial(train, keep_gradients=1.0),
    "nothing learnt": partial(train, lr=0.0),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_runs_are_kept(name: str) -> None:
    candidate, numerics = HEALTHY[name]
    parities = kept_of(train, candidate, numerics)
    assert [parity.reason for parity in parities if not parity.kept] == []
    assert {parity.steps for parity in parities} == {60}


def test_chaos_that_grows_from_rounding_is_kept() -> None:
    """At this step size float32 and float64 start 1e-7 apart and end on other trajectories."""
    wild = partial(train, lr=8.0, steps=200)
    kept = 0
    for seed in range(40):
        reference, candidate = wild(seed), wild(seed, dtype=np.float32)
        apart = np.abs(np.subtract(reference, candidate))
        assert apart[0] < 1e-6
        assert apart.max() > 0.5
        kept += compare(reference, candidate, Numerics.ROUNDING, QUIET).kept
        assert not compare(reference, candidate, Numerics.EXACT, QUIET).kept
    assert kept >= 30  # after the parting it is a matter of chance: 36 on one processor


@pytest.mark.parametrize("name", FAULTS)
def test_faults_break_rounding_always(name: str) -> None:
    assert not any(parity.kept for parity in kept_of(train, FAULTS[name], Numerics.ROUNDING))


def test_dropout_off_breaks_rounding_and_precision_always() -> None:
    drops = partial(train, dropout=0.3)
    for numerics in (Numerics.ROUNDING, Numerics.PRECISION):
        assert not any(parity.kept for parity in kept_of(drops, train, numerics))


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("lr 10 % up", 0),
        ("data half skipped", 6),
        ("gradients not zeroed", 10),
        ("nothing learnt", 10),
    ],
)
def test_faults_that_break_precision(name: str, least: int) -> None:
    """3 % hides a learning rate that is 10 % off: only rounding sees that."""
    caught = sum(not parity.kept for parity in kept_of(train, FAULTS[name], Numerics.PRECISION))
    assert caught >= least


@pytest.mark.parametrize("name", ["gradients not zeroed", "nothing learnt"])
def test_gross_faults_break_an_unseeded_script_too(name: str) -> None:
    for seed in SEEDS:
        reference = train(seed)
        own = noise(reference, train(seed, order=1))
        assert not compare(reference, FAULTS[name](seed, order=2), Numerics.EXACT, own).kept


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_an_unseeded_script_agrees_with_itself(dropout: float) -> None:
    kept = 0
    for seed in SEEDS:
        runs = [train(seed, order=order, dropout=dropout) for order in range(3)]
        parity = compare(runs[0], runs[2], Numerics.EXACT, noise(runs[0], runs[1]))
        assert parity.rule == "statistical"
        assert parity.reason.startswith("not deterministic by itself: compared statistically")
        kept += parity.kept
    assert kept >= 9  # one in ten or so may differ by chance


def test_equal_losses_are_bitwise_equal() -> None:
    losses = train()
    assert compare(losses, losses[:40], Numerics.EXACT, QUIET) == Parity(
        True, "bitwise", 40, 0.0, 0.0, "losses equal in all 40 steps"
    )


@pytest.mark.parametrize(
    ("numerics", "step", "factor", "lost"),
    [
        (Numerics.EXACT, 40, 1 + 1e-6, True),
        (Numerics.ROUNDING, 1, 1.1, True),
        (Numerics.ROUNDING, 1, 1 + 1e-9, False),
        (Numerics.ROUNDING, 40, 1.5, False),
    ],
)
def test_what_differs_for_good_is_lost(
    numerics: Numerics, step: int, factor: float, lost: bool
) -> None:
    losses = train()
    other = [loss * factor if at == step else loss for at, loss in enumerate(losses)]
    assert compare(losses, other, numerics, QUIET).lost is lost


def test_too_few_steps_are_not_lost() -> None:
    assert not compare([1.0, 1.0], [2.0, 2.0], Numerics.EXACT, QUIET).lost


def test_one_bit_breaks_exact() -> None:
    losses = train()
    other = [*losses[:7], math.nextafter(losses[7], 9), *losses[8:]]
    parity = compare(losses, other, Numerics.EXACT, QUIET)
    assert (parity.kept, parity.rule, parity.limit) == (False, "bitwise", 0.0)
    assert 0 < parity.deviation < 1e-15
    assert parity.reason.startswith("step 7: loss ")


DRAWS = (DataUse(draws={"torch"}), DataUse(draws={"torch"}))
NO_DRAWS = (DataUse(), DataUse())


@pytest.mark.parametrize(("repeats", "said"), [
    (0, "whether the plain script repeats itself is not known"),
    (8, "known to repeat itself in its first 8 steps only"),
    (40, "known to repeat itself in its first 40 steps only"),
    (41, ""),
])  # fmt: skip
def test_a_difference_beyond_the_steps_that_repeat_is_unclear(repeats: int, said: str) -> None:
    plain = train()
    changed = [*plain[:40], *(loss * 1.0001 for loss in plain[40:])]
    found = compare(plain, changed, Numerics.EXACT, replace(QUIET, repeats=repeats))
    assert (found.kept, found.unclear, found.lost) == (False, bool(said), not said)
    assert found.reason.endswith(said or "(must be equal)")


def test_another_run_shows_that_more_steps_repeat_or_that_they_do_not() -> None:
    plain = train()
    fork = noise(plain, [*plain[:8], *(loss * 1.0001 for loss in plain[8:])], perturbed=True)
    assert (fork.repeats, fork.fork) == (8, True)
    longer = fork.after(noise(plain, plain[:60]))
    assert (longer.deterministic, longer.repeats, longer.spread) == (True, 60, fork.spread)
    assert longer.after(noise(plain, plain[:30])).repeats == 60
    other = fork.after(noise(plain, [*plain[:40], *(loss * 1.1 for loss in plain[40:])]))
    assert (other.deterministic, other.repeats, other.fork) == (False, 0, False)


def test_data_order_counts_as_statistical_only_where_draws_were_seen() -> None:
    reference, candidate = train(), train(order=5)
    for numerics in (Numerics.EXACT, Numerics.ROUNDING):
        assert not compare(reference, candidate, numerics, QUIET).kept
        assert not compare(reference, candidate, numerics, QUIET, NO_DRAWS).kept
        drawn = compare(reference, candidate, numerics, QUIET, DRAWS)
        assert (drawn.kept, drawn.rule) == (True, "statistical")
        assert drawn.reason.startswith("the data draw random numbers (torch) in each process")
    equal = compare(reference, reference, Numerics.EXACT, QUIET, DRAWS)
    assert equal.rule == "bitwise"
    stuck = compare(reference, train(lr=0.0), Numerics.EXACT, QUIET, DRAWS)
    assert (stuck.kept, stuck.unclear) == (False, False)


@pytest.mark.parametrize(("factor", "kept", "unclear"), [
    (0.97, True, False), (0.93, False, True), (0.85, False, False),
])  # fmt: skip
def test_a_difference_that_other_draws_may_make_is_unclear(
    factor: float, kept: bool, unclear: bool
) -> None:
    losses = [2.0 - 0.001 * step for step in range(96)]
    found = compare(losses, [factor * x for x in losses], Numerics.EXACT, QUIET, DRAWS)
    assert (found.kept, found.unclear) == (kept, unclear)
    assert ("more steps would show it" in found.reason) is unclear
    certain = compare(losses, [factor * x for x in losses], Numerics.EXACT, QUIET, NO_DRAWS)
    assert (certain.kept, certain.unclear) == (False, False)


def test_the_difference_of_a_mean_says_what_it_is_a_part_of() -> None:
    reference = [4.0 / (1 + step / 8) for step in range(96)]
    candidate = [0.7 * loss for loss in reference]
    reason = compare(reference, candidate, Numerics.EXACT, QUIET, DRAWS).reason
    found = re.search(r"mean loss (\S+) became (\S+), (\S+) % of the loss at the start, 4 ", reason)
    assert found, reason
    old, new, off = map(float, found.groups())
    assert off == pytest.approx(100 * (old - new) / 4.0, rel=0.05)  # two digits


@pytest.mark.parametrize(("slope", "said"), [(0.0, True), (0.002, False)])
@pytest.mark.parametrize("own", [QUIET, Noise(deterministic=False, spread=())])
def test_losses_that_match_where_nothing_is_learnt_say_so(
    slope: float, said: bool, own: Noise
) -> None:
    losses = [0.693 - slope * step + 0.01 * math.cos(step) for step in range(96)]
    parity = compare(losses, [loss * (1 + 1e-6) for loss in losses], Numerics.PRECISION, own)
    assert parity.kept
    assert (UNMOVED in parity.reason) is said


def test_a_loss_that_falls_at_once_has_moved() -> None:
    """A steep fall within the first steps widens the error of their mean."""
    losses = [0.18 + 3.7 * math.exp(-step / 6) + 0.01 * math.cos(step) for step in range(218)]
    parity = compare(losses, [loss * (1 + 1e-6) for loss in losses], Numerics.PRECISION, QUIET)
    assert parity.kept
    assert UNMOVED not in parity.reason


def test_equal_bits_need_no_fall() -> None:
    parity = compare([0.693] * 96, [0.693] * 96, Numerics.EXACT, QUIET)
    assert parity.reason == "losses equal in all 96 steps"


def test_reason_names_the_step() -> None:
    reference = [2.3031 - 0.01 * step for step in range(20)]
    candidate = [reference[0], 2.2774, *reference[2:]]
    parity = compare(reference, candidate, Numerics.ROUNDING, QUIET)
    assert (
        parity.reason
        == "step 1: loss 2.2931 became 2.2774, relative difference 0.68 % (tolerance 0.1 %)"
    )
    assert parity.deviation == pytest.approx(0.0157 / 2.3031)


@pytest.mark.parametrize("numerics", Numerics)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_is_broken(numerics: Numerics, bad: float) -> None:
    losses = train()
    for own in (QUIET, Noise(False, QUIET.spread)):
        parity = compare(losses, [*losses[:9], bad, *losses[10:]], numerics, own)
        assert (parity.kept, parity.deviation) == (False, math.inf)
        assert parity.reason.startswith(f"step 9: loss became {bad}")


def test_steps_where_the_reference_is_not_finite_are_left_out() -> None:
    losses = train()
    holed = [*losses[:9], math.nan, *losses[10:]]
    for numerics in Numerics:
        assert compare(holed, losses, numerics, QUIET).kept
        assert compare(holed, losses, numerics, QUIET).steps == 59


@pytest.mark.parametrize("numerics", Numerics)
@pytest.mark.parametrize("count", [0, 2])
def test_too_few_steps_prove_nothing(numerics: Numerics, count: int) -> None:
    parity = compare([1.0] * count, [1.0] * 50, numerics, QUIET)
    assert not parity.kept
    assert parity.reason == f"too few steps to compare: {count}, at least 3 are needed"


@pytest.mark.parametrize("numerics", Numerics)
def test_three_steps_are_enough(numerics: Numerics) -> None:
    assert compare([3.0, 2.0, 1.0], [3.0, 2.0, 1.0], numerics, QUIET).kept


@pytest.mark.parametrize("late", [30.0, 1e9, 1e308])
def test_a_loss_that_runs_away_is_broken(late: float) -> None:
    """One huge last loss makes the standard error huge too; that is no excuse."""
    losses = train()
    runaway = [*losses[:-8], *(losses[-8] + late * 2.0**k / 256 for k in range(8))]
    for numerics in (Numerics.ROUNDING, Numerics.TRAINING):
        assert not compare(losses, runaway, numerics, QUIET).kept


def test_permuted_noise_is_kept_statistically() -> None:
    rng = np.random.default_rng(0)
    kept = 0
    for _ in range(100):
        losses = 2 + rng.normal(0, 0.3, 60)
        shuffles = [rng.permutation(losses).tolist() for _ in range(2)]
        own = noise(losses.tolist(), shuffles[0])
        kept += compare(losses.tolist(), shuffles[1], Numerics.EXACT, own).kept
    assert kept >= 95


def test_a_small_fall_that_is_missed_is_found() -> None:
    """The loss falls by less than the 3 % tolerance, and yet the candidate is stuck."""
    rng = np.random.default_rng(0)
    wobble = rng.normal(0, 0.005, 60)
    falling = (2.30 - 0.05 * np.linspace(0, 1, 60) + wobble).tolist()
    parity = compare(falling, (2.30 + wobble).tolist(), Numerics.PRECISION, QUIET)
    assert not parity.kept
    assert parity.reason.startswith("loss fell by")


def test_a_vanishing_loss_is_judged_by_its_start() -> None:
    reference = [2.0 * 0.7**step for step in range(60)]
    candidate = [loss * (1 + 0.2 * (step > 20)) for step, loss in enumerate(reference)]
    assert compare(reference, candidate, Numerics.ROUNDING, QUIET).kept


def test_a_loss_of_nothing_is_compared() -> None:
    zeros = [0.0] * 30
    for numerics in Numerics:
        assert compare(zeros, zeros, numerics, QUIET).kept
        assert not compare(zeros, [1.0] * 30, numerics, QUIET).kept


def test_training_is_one_sided_and_says_what_it_holds() -> None:
    reference, better = train(), train(lr=0.6)
    assert compare(reference, better, Numerics.TRAINING, QUIET).kept
    back = compare(better, train(lr=0.05), Numerics.TRAINING, QUIET)
    assert not back.kept
    assert back.reason.startswith(
        "training changes: may end higher by 10% of the reference's fall, 3% of"
    )


def test_noise_of_a_deterministic_script() -> None:
    losses = train()
    assert noise(losses, losses[:30]) == Noise(True, (0.0,) * 30, repeats=30)
    assert noise([*losses, math.nan], [*losses, math.nan]).deterministic


def test_noise_of_others() -> None:
    assert noise([2.0, 2.0, 1.0, 0.0], [2.0, 2.1, 1.0, -0.2]) == Noise(
        False,
        (0.0, pytest.approx(0.05), 0.0, pytest.approx(-0.1)),  # type: ignore[arg-type]
    )
    assert noise([], []) == Noise(False, ())
    assert noise([1.0, 2.0], [1.0, 2.0]) == Noise(False, (0.0, 0.0))
    assert noise([1.0, math.nan, 1.0], [1.0, 1.0, 1.0]) == Noise(False, (0.0, 0.0, 0.0))


losses_of_any_size = st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=70)


@settings(deadline=None, max_examples=50)
@given(losses_of_any_size, losses_of_any_size, st.sampled_from(Numerics), st.booleans())
def test_any_losses_get_an_answer(
    reference: list[float], candidate: list[float], numerics: Numerics, drawn: bool
) -> None:
    own = noise(reference, candidate)
    for parity in (
        compare(reference, candidate, numerics, own, DRAWS if drawn else None),
        compare(reference, candidate, numerics, QUIET, DRAWS if drawn else None),
    ):
        assert parity.kept is (parity.deviation <= parity.limit and parity.steps >= 3)
        assert parity.reason


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=70), st.sampled_from(Numerics))
def test_a_run_agrees_with_itself(losses: list[float], numerics: Numerics) -> None:
    assert compare(losses, losses, numerics, noise(losses, losses)).kept
    assert compare(losses, losses, numerics, Noise(False, ())).kept


def test_steps_without_a_loss_are_left_out() -> None:
    seen = [1.0, None, 0.5, None, 0.4, 0.3]
    found = compare(seen, list(seen), Numerics.EXACT, noise(seen, seen))
    assert found.kept
    assert found.steps == 4
    assert not_finite(seen) == ""
    assert "in 1 of 5 steps" in not_finite([*seen, math.nan])


def test_a_training_without_any_loss_cannot_be_compared() -> None:
    none: list[float | None] = [None] * 10
    found = compare(none, none, Numerics.EXACT, noise(none, none))
    assert not found.kept
    assert found.reason.startswith("no loss was seen")
