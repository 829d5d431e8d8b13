import math
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotlap.trial.stats import (
    LAUNCH_SD,
    PRIOR,
    Pair,
    PairedTest,
    Verdict,
    half_width,
    launches_needed,
    log_interval,
    t_quantile,
)

RACES, PAIRS, ALPHA = 500, 60, 0.05
SIMULATION_ERROR = 3 * math.sqrt(ALPHA * (1 - ALPHA) / RACES)

# Block times [race, pair, first or second block], both sides equally fast.
Noise = Callable[[np.random.Generator], np.ndarray]


def normal(rng: np.random.Generator) -> np.ndarray:
    return np.exp(rng.normal(0, 0.04, (RACES, PAIRS, 2)))


def student_t3(rng: np.random.Generator) -> np.ndarray:
    return np.exp(0.03 * rng.standard_t(3, (RACES, PAIRS, 2)))


def bursty(rng: np.random.Generator) -> np.ndarray:
    """Another process comes (each 17 blocks or so), slows by 1.3 to 4 times, goes (after 5)."""
    slots = 10
    load = np.zeros((RACES, PAIRS * 2 * slots))
    level = np.zeros(RACES)
    for slot in range(load.shape[1]):
        chance = rng.random(RACES)
        comes, stays = (level == 0) & (chance < 0.006), (level > 0) & (chance > 0.02)
        level = np.where(comes, rng.uniform(0.3, 3, RACES), np.where(stays, level, 0))
        load[:, slot] = level
    weather = (1 + load).reshape(RACES, PAIRS, 2, slots).mean(axis=3)
    return np.asarray(weather * np.exp(rng.normal(0, 0.01, weather.shape)))


def race(test: PairedTest, blocks: np.ndarray, b_cost: float = 1.0) -> Iterable[PairedTest]:
    """Feed one race's blocks, order alternating; yields at each new unit, where one may peek."""
    for pair, (first, second) in enumerate(blocks.tolist()):
        a_first = pair % 2 == 0
        a, b = (first, second) if a_first else (second, first)
        test.add(a, b * b_cost)
        yield test


def filled(pairs: Iterable[tuple[float, float]], **options: float) -> PairedTest:
    test = PairedTest(**options)  # type: ignore[arg-type]
    for a, b in pairs:
        test.add(a, b)
    return test


def test_half_width_is_the_inverse_of_the_martingale() -> None:
    def martingale(units: np.ndarray, mean: float) -> float:
        n, shifted = len(units), units - mean
        share = float(shifted.sum() ** 2 / ((n + PRIOR) * (shifted**2).sum()))
        return math.sqrt(PRIOR / (n + PRIOR)) * math.pow(1 - share, -n / 2)

    def inverted(units: np.ndarray) -> float:
        near, far = 0.0, 1e6
        for _ in range(200):
            middle = (near + far) / 2
            inside = martingale(units, units.mean() + middle) < 1 / ALPHA
            near, far = (middle, far) if inside else (near, middle)
        return near

    rng = np.random.default_rng(0)
    for n in (4, 5, 8, 17, 60):
        units = rng.normal(0.1, 0.05, n)
        variation = float(((units - units.mean()) ** 2).sum())
        assert half_width(n, variation, ALPHA) == pytest.approx(inverted(units), rel=1e-6)


@pytest.mark.parametrize(("n", "alpha"), [(1, 0.05), (3, 0.05), (4, 0.005)])
def test_half_width_is_infinite_with_too_few_units(n: int, alpha: float) -> None:
    assert half_width(n, 1.0, alpha) == math.inf


@pytest.mark.parametrize("noise", [normal, student_t3, bursty])
def test_error_holds_under_peeking(noise: Noise) -> None:
    """No effect is too small to be called here, so this counts any exclusion of equality."""
    blocks = noise(np.random.default_rng(1))
    calls = {Verdict.FASTER, Verdict.SLOWER}
    wrong = sum(
        any(test.verdict() in calls for test in race(PairedTest(min_effect=1e-9), one))
        for one in blocks
    )
    assert wrong / RACES <= ALPHA + SIMULATION_ERROR


def test_error_is_shared_by_the_candidates() -> None:
    blocks = normal(np.random.default_rng(2))[:500]
    wrong = sum(
        any(
            test.verdict() in {Verdict.FASTER, Verdict.SLOWER}
            for test in race(PairedTest(min_effect=1e-9, candidates=10), one)
        )
        for one in blocks
    )
    assert wrong / len(blocks) <= 0.005 + 3 * math.sqrt(0.005 / len(blocks))


@pytest.mark.parametrize("sd", [0.05, 0.08])
@pytest.mark.parametrize(("b_cost", "verdict"), [(1.1, Verdict.SLOWER), (1 / 1.1, Verdict.FASTER)])
def test_ten_percent_is_found_within_40_pairs(sd: float, b_cost: float, verdict: Verdict) -> None:
    rng = np.random.default_rng(3)
    races = np.exp(rng.normal(0, sd / math.sqrt(2), (300, 40, 2)))
    found = sum(
        any(test.verdict() is verdict for test in race(PairedTest(), one, b_cost)) for one in races
    )
    assert found >= 0.95 * len(races)


def test_ten_percent_is_found_through_bursts() -> None:
    races = bursty(np.random.default_rng(4))[:300, :40]
    found = sum(
        any(test.verdict() is Verdict.SLOWER for test in race(PairedTest(), one, 1.1))
        for one in races
    )
    assert found >= 0.95 * len(races)


def test_a_steady_drift_cancels() -> None:
    """The machine slows down by 2 % a block: turning the order keeps it out of the ratio."""
    blocks = np.exp(0.02 * np.arange(40)).reshape(20, 2)
    *_, test = race(PairedTest(), blocks, 1.1)
    now = test.estimate()
    assert now.ratio == pytest.approx(1 / 1.1, rel=1e-9)
    assert now.low < 1 / 1.1 < now.high


def test_one_wild_pair_does_not_drag_the_estimate() -> None:
    rng = np.random.default_rng(5)
    pairs = [(1.1 * math.exp(rng.normal(0, 0.01)), 1.0) for _ in range(20)]
    pairs[7] = (1.1, 40.0)
    assert filled(pairs).estimate().ratio == pytest.approx(1.1, rel=0.01)
    assert filled(pairs).verdict() is Verdict.FASTER


def test_identical_times_are_the_same() -> None:
    assert filled([(1.0, 1.0)] * 5).verdict() is Verdict.INCONCLUSIVE
    test = filled([(1.0, 1.0)] * 6)
    now = test.estimate()
    assert (now.ratio, now.low, now.high, now.pairs, now.level) == (1, 1, 1, 6, 0.95)
    assert test.verdict() is Verdict.SAME
    assert test.not_faster()
    assert test.settled(precision=0.001)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_too_few_pairs_are_inconclusive(count: int) -> None:
    test = filled([(2.0, 1.0)] * count)
    now = test.estimate()
    assert (now.low, now.high, now.pairs) == (0.0, math.inf, count)
    assert now.ratio == pytest.approx(2.0) if count else math.isnan(now.ratio)
    assert test.verdict() is Verdict.INCONCLUSIVE
    assert not test.not_faster()
    assert not test.settled()


def of_launches(rng: np.random.Generator, lucks: Iterable[float], **options: float) -> PairedTest:
    """A test of some launches; `lucks` is by how much the processes of each happen to differ."""
    test = PairedTest(launch_sd=LAUNCH_SD, **options)  # type: ignore[arg-type]
    for number, luck in enumerate(lucks):
        if number:
            test.relaunched()
        for noise in rng.normal(luck, 0.03, 25):
            test.add(math.exp(noise), 1.0)
    return test


def test_one_launch_does_not_call_what_processes_of_one_program_differ_by() -> None:
    rng = np.random.default_rng(6)
    one = of_launches(rng, [0.08])
    assert filled([(math.exp(x), 1.0) for x in rng.normal(0.08, 0.03, 25)]).estimate().low > 1.02
    assert one.estimate().low < 1.01
    assert one.verdict() is Verdict.INCONCLUSIVE
    assert of_launches(rng, [0.08, -0.06]).verdict() is Verdict.INCONCLUSIVE


def test_what_the_launches_agree_on_is_called() -> None:
    rng = np.random.default_rng(7)
    assert of_launches(rng, [0.08, 0.11, 0.09]).verdict() is Verdict.FASTER
    assert of_launches(rng, [-0.08, -0.11, -0.09]).verdict() is Verdict.SLOWER
    assert of_launches(rng, [0.0, 0.01, -0.01, 0.0, 0.0]).verdict() is Verdict.SAME
    assert of_launches(rng, [0.4]).verdict() is Verdict.FASTER


def test_more_launches_narrow_what_more_pairs_cannot() -> None:
    rng = np.random.default_rng(8)
    one, four = of_launches(rng, [0.0]).interval(), of_launches(rng, [0.0] * 4).interval()
    assert one.between > 0.09
    assert four.between < one.between / 2.5
    assert of_launches(rng, [0.1, -0.1]).interval().between > one.between


def test_launches_are_weighted_by_what_is_known_of_them() -> None:
    test = of_launches(np.random.default_rng(11), [0.08, 0.0])
    for noise in np.random.default_rng(12).normal(0.0, 0.03, 100):
        test.add(math.exp(noise), 1.0)
    assert test.estimate().ratio == pytest.approx(math.exp(0.04), abs=0.015)


def test_luck_that_lasts_as_long_as_a_process_is_rarely_called() -> None:
    """Processes of one program differ by 5 % (1 sd) for good; the race looks after each pair."""
    rng = np.random.default_rng(10)
    called = dict.fromkeys((0.0, LAUNCH_SD), 0)
    for launch_sd in called:
        for _ in range(150):
            test = PairedTest(launch_sd=launch_sd)
            for launch in range(4):
                if launch:
                    test.relaunched()
                for noise in rng.normal(rng.normal(0, 0.05), 0.05, 8):
                    test.add(math.exp(noise), 1.0)
                    if test.settled():
                        break
                if test.settled():
                    break
            called[launch_sd] += test.verdict() in {Verdict.FASTER, Verdict.SLOWER}
    assert called[0.0] > 0.1 * 150, "or this shows nothing"
    assert called[LAUNCH_SD] <= 0.07 * 150


@pytest.mark.parametrize("slope", [0.0, 0.6, 1.0, 1.3])
def test_waits_for_a_core_narrow_the_interval_and_do_not_move_it(slope: float) -> None:
    """A's threads wait longer on average: the ratio is that of the uncontended times."""
    rng = np.random.default_rng(13)
    plain, corrected = PairedTest(), PairedTest()
    for _ in range(30):
        a, b = math.exp(rng.normal(1.2, 0.3)), math.exp(rng.normal(1.0, 0.3))
        times = 1.1 * a**slope * math.exp(rng.normal(0, 0.02)), b**slope
        plain.add(*times)
        corrected.add(*times, a, b)
    now = corrected.estimate()
    assert now.low < 1.1 < now.high
    assert corrected.interval().half < 0.05
    if slope > 0.5:
        assert corrected.interval().half < plain.interval().half / 3


def test_the_correction_holds_its_level_under_peeking() -> None:
    """Both sides equal, load by chance, a slope that has to be found, four pairs on."""
    rng = np.random.default_rng(14)
    wrong = 0
    for _ in range(400):
        slope, test, missed = rng.uniform(0, 1.3), PairedTest(), False
        for _ in range(30):
            a, b = np.exp(np.abs(rng.normal(1.0, 0.4, 2)))
            test.add(math.exp(slope * math.log(a) + rng.normal(0, 0.03)), b**slope, a, b)
            now = test.interval()
            missed |= abs(now.centre) > now.half
        wrong += missed
    assert wrong / 400 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)


def test_a_threshold_is_told_from_on_both_sides() -> None:
    rng = np.random.default_rng(9)
    assert of_launches(rng, [-0.2, -0.18]).below(1 / 1.05) is True
    assert of_launches(rng, [-0.06]).below(1 / 1.05) is None
    assert of_launches(rng, [0.08]).below(1 / 1.05) is False


def test_how_much_more_data_would_give_a_verdict() -> None:
    rng = np.random.default_rng(15)
    decided, close = of_launches(rng, [0.4]), of_launches(rng, [0.07])
    assert decided.growth_needed() == 1.0
    assert 1.0 < close.growth_needed() < 10.0
    assert PairedTest().growth_needed() == math.inf


def test_a_gain_is_unlikely_only_where_the_time_left_could_not_show_it() -> None:
    rng = np.random.default_rng(16)
    none = of_launches(rng, [-0.03])
    assert none.gain_unlikely(growth=3.0)
    hopeful = of_launches(rng, [0.07])
    assert not hopeful.gain_unlikely(growth=4.0)
    assert hopeful.gain_unlikely(growth=1.05)


def test_a_large_gain_of_few_pairs_is_not_given_up() -> None:
    """The interval of four pairs is wide, and each further pair narrows it by much."""
    test = PairedTest(alpha=0.025)
    for a, b in [(6.3, 1.0), (3.1, 1.0), (8.2, 1.0), (5.0, 1.0)]:
        test.add(a, b)
    assert test.estimate().low < 1
    assert not test.gain_unlikely(growth=1.5)
    assert 1.4 < test.growth_needed() < 2.5


@pytest.mark.parametrize("growth", [1.5, 2.0, 5.0])
def test_the_width_to_expect_is_the_one_that_comes(growth: float) -> None:
    rng = np.random.default_rng(17)
    few, many = 6, round(6 * growth)
    expected, seen = [], []
    for _ in range(300):
        units = [Pair(unit) for unit in rng.normal(0.1, 0.05, many)]
        expected.append(log_interval([units[:few]], 0.05).half_after(growth))
        seen.append(log_interval([units], 0.05).half)
    assert np.median(expected) == pytest.approx(np.median(seen), rel=0.15)


@pytest.mark.parametrize(
    ("probability", "freedom", "quantile"),
    [(0.975, 4, 2.776), (0.975, 6, 2.447), (0.9975, 4, 5.598), (0.995, 8, 3.355), (0.975, 60, 2.0)],
)
def test_quantiles_of_students_t(probability: float, freedom: int, quantile: float) -> None:
    assert t_quantile(probability, freedom) == pytest.approx(quantile, rel=0.01)


@pytest.mark.parametrize(
    ("ratio", "wobble", "verdict", "not_faster"),
    [
        (1.10, 0.005, Verdict.FASTER, False),
        (0.90, 0.005, Verdict.SLOWER, True),
        (1.00, 0.005, Verdict.SAME, True),
        (1.01, 0.002, Verdict.SAME, True),  # faster for sure, yet by less than counts
        (1.019, 0.010, Verdict.SAME, False),  # by less than counts, or a little more
        (1.019, 0.060, Verdict.INCONCLUSIVE, False),
        (0.955, 0.050, Verdict.INCONCLUSIVE, True),  # not faster, that much is known
        (1.00, 0.100, Verdict.INCONCLUSIVE, False),
    ],
)
def test_verdict(ratio: float, wobble: float, verdict: Verdict, not_faster: bool) -> None:
    up, down = ratio * math.exp(wobble), ratio * math.exp(-wobble)
    test = filled([(up, 1.0), (up, 1.0), (down, 1.0), (down, 1.0)] * 4)
    assert test.verdict() is verdict
    assert test.not_faster() is not_faster
    assert test.settled() is (verdict is not Verdict.INCONCLUSIVE)


def test_settled_waits_for_precision() -> None:
    test = filled([(1.50, 1.0), (1.50, 1.0), (1.40, 1.0), (1.40, 1.0)] * 4)
    now = test.estimate()
    half = math.log(now.high / now.low) / 2
    assert test.settled()
    assert test.settled(precision=half * 1.01)
    assert not test.settled(precision=half * 0.99)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_times_must_be_positive_and_finite(bad: float) -> None:
    with pytest.raises(ValueError, match="block time of A"):
        PairedTest().add(bad, 1.0)
    with pytest.raises(ValueError, match="block time of B"):
        PairedTest().add(1.0, bad)


@pytest.mark.parametrize(
    "options",
    [{"min_effect": 0}, {"alpha": 0}, {"alpha": 1}, {"candidates": 0}, {"same_within": 0}],
)
def test_options_are_checked(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        PairedTest(**options)  # type: ignore[arg-type]


times = st.floats(1e-3, 1e3)
races = st.lists(st.tuples(times, times), min_size=2, max_size=30)


@settings(deadline=None, max_examples=50)
@given(races)
def test_swapping_the_sides_inverts_the_interval(pairs: list[tuple[float, float]]) -> None:
    now = filled(pairs).estimate()
    swapped = filled([(b, a) for a, b in pairs]).estimate()
    for ours, theirs in ((now.ratio, swapped.ratio), (now.low, swapped.high)):
        assert _log(ours) == pytest.approx(-_log(theirs), rel=1e-6, abs=1e-6)


@settings(deadline=None, max_examples=50)
@given(races, st.floats(1e-3, 1e3))
def test_the_unit_of_time_does_not_matter(pairs: list[tuple[float, float]], scale: float) -> None:
    now = filled(pairs).estimate()
    scaled = filled([(a * scale, b * scale) for a, b in pairs]).estimate()
    for ours, theirs in ((now.ratio, scaled.ratio), (now.low, scaled.low), (now.high, scaled.high)):
        assert _log(ours) == pytest.approx(_log(theirs), rel=1e-6, abs=1e-6)


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def test_the_smaller_a_gain_the_more_launches_it_takes() -> None:
    ratios = (1.3, 1.15, 1.1, 1.06, 1.03)
    needed = [launches_needed(ratio, 0.02) for ratio in ratios]
    assert needed == sorted(needed)
    assert needed[0] == 1
    assert needed[2] > 1
    assert needed[-1] == 6, "no more than a race makes"


def test_the_times_of_a_race_are_those_of_its_ratio() -> None:
    """One side was hit by load: its raw median says the opposite of the corrected ratio."""
    test = PairedTest()
    for index in range(12):
        stretch = 1.6 + 0.01 * index
        test.add(0.0333, 0.028 * stretch, 1.0, stretch)
    a, b = test.times()
    assert a / b == pytest.approx(test.estimate().ratio)
    assert a / b == pytest.approx(0.0333 / 0.028, rel=0.02)
    assert b == pytest.approx(0.028, rel=0.05)
    assert test.waited() > 0.2
    calm = PairedTest()
    calm.add(0.04, 0.02)
    assert calm.times() == pytest.approx((0.04, 0.02))
    assert calm.waited() == 0
