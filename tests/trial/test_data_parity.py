"""What two runs were given, compared; and an audit of real commands."""

import random
import sys
from pathlib import Path

import pytest

from hotlap.core.spec import Mode
from hotlap.trial.data_parity import DataUse, changed_data, ks_distance, reshuffled
from hotlap.trial.launch import Setting
from hotlap.trial.parity import Noise, noise
from hotlap.trial.side import Side
from hotlap.tune.races import parity_of
from light import light

SCRIPT = """
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Noisy(Dataset):
    reads = 0
    def __len__(self):
        return 64
    def __getitem__(self, index):
        self.reads += 1
        return torch.full((8,), float(index)) + float(np.random.rand()), index % 4

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(1000):
    for x, y in DataLoader(Noisy(), 16, shuffle=True):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def side(
    tmp_path: Path,
    text: str = SCRIPT,
    *,
    perturbed: bool = False,
    **techniques: dict[str, int],
) -> Side:
    script = tmp_path / "train.py"
    script.write_text(light(text))
    setting = Setting(
        (sys.executable, str(script)), Mode.RACE, techniques, seed=0,
        scratch=tmp_path / "scratch", output=tmp_path / "output.log",
    )  # fmt: skip
    return Side(setting.perturbed() if perturbed else setting)


def run(which: Side, steps: int = 24) -> Side:
    try:
        which.ready()
        which.block(steps)
    finally:
        which.close()
    return which


def test_draws_and_state_of_a_real_command_are_seen(tmp_path: Path) -> None:
    found = run(side(tmp_path)).data
    assert (found.draws, found.state) == ({"numpy"}, {"reads"})
    assert (0, 0) in found.ended
    assert sorted(found.column("indices", (0, 0))) == list(range(64))
    assert len(found.column("inputs", (0, 0))) == 64


def test_loader_workers_report_too(tmp_path: Path) -> None:
    found = run(side(tmp_path, loader_workers={"num_workers": 1}), 4).data
    assert "numpy" in found.draws


@pytest.mark.slow
def test_a_nudge_by_rounding_parts_the_losses_after_its_step(tmp_path: Path) -> None:
    plain, nudged = run(side(tmp_path)), run(side(tmp_path, perturbed=True))
    assert nudged.data.perturbed
    assert not plain.data.perturbed
    own = noise(plain.losses, nudged.losses, perturbed=True)
    assert own.deterministic
    assert own.fork
    assert 0 < max(map(abs, own.spread)) < 1e-4


TWICE = SCRIPT.replace("float(np.random.rand())", "0.0").replace(
    "for x, y in DataLoader(Noisy(), 16, shuffle=True):",
    "loader = DataLoader(Noisy(), 16, shuffle=True)\n"
    "    iter(loader)\n"
    "    for x, y in loader:",
).replace("        self.reads += 1\n", "")  # fmt: skip


@pytest.mark.parametrize(
    ("script", "shuffled"),
    [
        (TWICE, True),
        pytest.param(TWICE.replace("    iter(loader)\n", ""), False, marks=pytest.mark.slow),
    ],
)
def test_a_loader_that_is_asked_twice_shuffles_otherwise_with_workers(
    tmp_path: Path, script: str, shuffled: bool
) -> None:
    """As `tqdm.auto` does; nothing else of the data differs."""
    workers: dict[str, dict[str, object]] = {"loader_workers": {"num_workers": 1}}
    plain = run(side(tmp_path, script))
    tuned = run(side(tmp_path, script, loader_workers={"num_workers": 1}))
    assert reshuffled(plain.data, tuned.data) is shuffled
    assert changed_data(plain.data, tuned.data) == ""
    found = parity_of(workers, plain, tuned, Noise(True, ()))
    assert found.rule == ("statistical" if shuffled else "bitwise")
    assert ("another seed" in found.reason) is shuffled
    assert found.kept or found.unclear


def use(**columns: list[float]) -> DataUse:
    found = DataUse(draws={"torch"})
    size = max(map(len, columns.values()))
    batch = {"loader": 0, "epoch": 0, "size": size, "indices": None, "inputs": [], "labels": []}
    found.add({"batches": [{**batch, "means": [], **columns}]})
    return found


def test_inputs_of_another_distribution() -> None:
    one = [i / 100 for i in range(100)]
    assert changed_data(use(means=one), use(means=one[::-1])) == ""
    assert "distributed otherwise" in changed_data(use(means=one), use(means=[v * 2 for v in one]))


def test_distance_of_distributions() -> None:
    assert ks_distance([1, 2, 3], [1, 2, 3]) == 0
    assert ks_distance([1, 2], [3, 4]) == 1
    assert abs(ks_distance([1, 2, 3, 4], [3, 4, 5, 6]) - 0.5) < 1e-12


def test_another_label_for_the_same_sample() -> None:
    theirs = use(indices=[0, 1, 2], labels=[5, 6, 7], inputs=[1, 2, 3])
    assert changed_data(theirs, use(indices=[2, 0, 1], labels=[7, 5, 6], inputs=[4, 5, 6])) == ""
    wrong = use(indices=[2, 0, 1], labels=[7, 6, 5], inputs=[4, 5, 6])
    assert changed_data(theirs, wrong).startswith("2 of 3 samples have another label, sample 0")


def test_only_what_is_shuffled_may_come_in_another_order() -> None:
    some, other = use(indices=[2, 0, 1]), use(indices=[1, 0, 2])
    assert reshuffled(some, other)
    assert not reshuffled(some, use(indices=[2, 0])), "as far as both were seen"
    assert not reshuffled(use(indices=[0, 1, 2]), other), "a technique that reorders is at fault"


def test_a_label_may_be_drawn_with_its_input_and_belongs_to_it() -> None:
    """As the mask of an image that is flipped at random: a flipped one is a thousand more here."""
    samples = list(range(20))
    flips = [(random.Random(seed).random() < 0.5) * 1000 for seed in samples]
    masks = [100 + s for s in samples]
    plain = use(indices=samples, inputs=samples, labels=masks)
    mixed = [value + flip for value, flip in zip(samples, flips, strict=True)]
    flipped = [mask + flip for mask, flip in zip(masks, flips, strict=True)]
    assert changed_data(plain, use(indices=samples, inputs=mixed, labels=flipped)) == ""
    wrong = use(indices=samples, inputs=mixed, labels=flipped[::-1])
    assert "samples have another label" in changed_data(plain, wrong)
    classes = use(indices=samples, inputs=samples, labels=[s % 3 for s in samples])
    other = use(indices=samples, inputs=mixed, labels=[(s + 1) % 3 for s in samples])
    assert "another label" in changed_data(classes, other), "classes are not drawn"


def epoch(indices: list[int], batch: int) -> DataUse:
    """An epoch of whole and broken batches of these samples, with labels by the sample."""
    found = DataUse(draws={"random"}, ended={(0, 0)})
    for begin in range(0, len(indices), batch):
        part = indices[begin : begin + batch]
        labels = [index % 2 for index in part]
        found.batches.setdefault((0, 0), []).append(
            {"size": len(part), "indices": part, "labels": labels}
        )
    return found


@pytest.mark.parametrize(
    ("theirs", "mine", "says"),
    [
        ([*range(16)], [*range(3, 19)], ""),  # drop_last: three others are left out
        ([*range(16)], [*range(4, 20)], "4 of 16 samples of the reference do not come"),
        ([*range(18)], [*range(1, 19)], "1 of 18 samples of the reference do not come"),
        ([*range(16)], [*range(15), 3], "come more than once"),
    ],
)
def test_an_epoch_that_drops_its_last_batch_may_leave_out_other_samples(
    theirs: list[int], mine: list[int], says: str
) -> None:
    found = changed_data(epoch(theirs, 4), epoch(mine, 4))
    assert says in found
    assert bool(found) is bool(says)


def step_of(*batches: tuple[int, int, int]) -> dict[str, object]:
    """What a step reports that was given batches of (loader, epoch, size)."""
    named = ("loader", "epoch", "size")
    return {"batches": [dict(zip(named, batch, strict=True)) for batch in batches]}


def test_the_samples_of_a_step_are_those_that_it_trains_on() -> None:
    train, held_out = [(0, 0, 8)] * 4, [(1, 0, 8)] * 25
    use = DataUse()
    for number in range(8):
        evaluation = [(1, number, size) for _, _, size in held_out] if number % 2 else []
        use.add(step_of(*train, *evaluation), sender=1)
        use.add(step_of(*train, *evaluation), sender=2)  # another rank
    assert use.samples == 32


def test_where_each_step_is_an_epoch_all_that_it_is_given_counts() -> None:
    use = DataUse()
    for number in range(6):
        use.add(step_of((0, number, 100)))
        use.add({"batches": [{"loader": 0, "epoch": number, "end": True}]})
    assert use.samples == 100
    assert DataUse(given=use.given[:4]).samples == 0
