import pickle
import random
import threading
import time

import numpy as np
import pytest
import torch
import torch._dynamo
from probing_help import line_of, probed
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from hotlap.core.registry import technique
from hotlap.seam.probe import operators
from hotlap.seam.probe.diagnostics import CountFlops
from hotlap.seam.probe.operators import LARGE_LOGITS_BYTES, replaced_functions
from hotlap.seam.probe.recorder import Recorder
from hotlap.seam.probe.rest import BURST, LONG

pytestmark = pytest.mark.usefixtures("nothing_compiled")

DIAGNOSTIC = 8  # at most: a step that holds an evaluation is tried again
X, Y = torch.randn(8, 4), torch.randint(0, 3, (8,))


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))


def steps_of(session):
    """Enough steps for the warm-up, the diagnostic steps, those asked for and some that are struck.

    A short step that is struck by a sample does not count.
    """
    options = session.spec.options
    return range(options["warmup"] + DIAGNOSTIC + 5 * options["steps"] // 4)


def train(session, model=None, before=lambda: None, between=lambda: None, after=lambda: None):
    model = model or net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in steps_of(session):
        before()
        loss = functional.cross_entropy(model(X), Y)
        between()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        after()
    return model


def millis(session, phase):
    found = session.profile["phases"].get(phase)
    return found["mean"] * 1e3 if found else 0.0


def nap():
    time.sleep(0.012)


@pytest.mark.parametrize("batches", [1, 3])
def test_backward_passes_of_a_step_are_counted(batches):
    with probed(steps=3) as session:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in steps_of(session):
            for _ in range(batches):
                functional.cross_entropy(model(X), Y).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert session.profile["backwards"] == batches
    assert session.profile["samples"] == batches * len(X)


def test_a_batch_that_the_model_is_called_with_twice_counts_once():
    with probed(steps=3) as session:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in steps_of(session):
            made = torch.where(torch.rand(8, 1) < 0.5, model(X), model(X))
            functional.cross_entropy(made, Y).backward()
            optimizer.step()
    assert session.profile["samples"] == len(X)


@pytest.mark.parametrize("again", [1, 2])
def test_samples_that_go_through_the_model_once_are_known(again):
    data = torch.utils.data.TensorDataset(X.repeat(40, 1), Y.repeat(40))
    with probed(steps=3) as session:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        batches = iter(torch.utils.data.DataLoader(data, batch_size=4))
        for _ in steps_of(session):
            for _ in range(4):
                x, y = next(batches)
                for _ in range(again):
                    functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert session.profile["facts"]["each_sample_once"] == (again == 1)


# phases


def test_phases_add_up_to_the_step():
    with probed(steps=10) as session:
        train(session)
    profile = session.profile
    total = sum(phase["mean"] for phase in profile["phases"].values())
    assert total == pytest.approx(profile["step"]["mean"])
    assert profile["steps"] == profile["step"]["steps"] == 10
    assert profile["ended"] == "steps"
    assert {"forward", "backward", "optimizer", "other"} <= set(profile["phases"])
    assert "data" not in profile["phases"]
    step = profile["step"]
    assert step["p10"] <= step["p50"] <= step["p90"]


def test_time_between_the_phases_is_rest_and_its_line_is_named():
    with probed(steps=15) as session:
        train(session, after=nap)
    assert millis(session, "other") > 11
    assert session.profile["lines"]["other"][0]["place"] == line_of(nap, "sleep")
    assert session.profile["lines"]["other"][0]["text"] == "time.sleep(0.012)"


def test_what_lies_between_forward_and_backward_is_forward():
    with probed(steps=5) as session:
        train(session, between=nap)
    assert millis(session, "forward") > 11
    assert millis(session, "other") < 6


def test_a_check_on_one_batch_before_the_training_is_left_out():
    def check(model, optimizer):
        for _ in range(8):
            optimizer.zero_grad()
            functional.cross_entropy(model(X[:2]), Y[:2]).backward()
            optimizer.step()
            time.sleep(0.04)

    for checked in (net(), model := net()):  # another instance, or the one that is trained then
        with probed(steps=10) as session:
            check(checked, torch.optim.SGD(checked.parameters(), lr=0.1))
            train(session, model)
        profile = session.profile
        assert profile["steps"] == 10
        assert profile["samples"] == 8
        assert profile["step"]["p50"] < 0.03, "of its own steps"
        assert profile["places"]["model"] == line_of(train, "loss = functional")


def test_slow_dataset_is_data_and_its_line_is_named():
    class Slow(Dataset):
        def __len__(self):
            return 64

        def __getitem__(self, index):
            time.sleep(0.004)
            return X[index % 8], Y[index % 8]

    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with probed(steps=12) as session:
        loader = DataLoader(Slow(), batch_size=4)
        for x, y in loader:
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert millis(session, "data") > 15
    assert session.profile["places"]["dataset"] == line_of(Slow.__getitem__, "sleep")
    assert session.profile["places"]["loader"] == line_of(
        test_slow_dataset_is_data_and_its_line_is_named, "DataLoader(Slow()"
    )
    facts = session.profile["facts"]
    assert facts["loader_serial"]
    assert facts["map_style"]
    assert not facts["loader_workers"]
    assert facts["batch_size"] == 4
    assert session.profile["samples"] == 4


@pytest.mark.parametrize("draws", ["random.random()", "np.random.rand()", "torch.rand(1)",
                                   "self.own.random()", ""])  # fmt: skip
def test_random_draws_of_the_data_are_seen_however_little_it_takes(draws):
    class Augmented(Dataset):
        def __init__(self):
            self.own = random.Random(0)

        def __len__(self):
            return 64

        def __getitem__(self, index):
            eval(draws or "0")
            return X[index % 8], Y[index % 8]

    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with probed(steps=4) as session:
        for x, y in DataLoader(Augmented(), batch_size=4, shuffle=True):
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert session.profile["facts"]["draws"] == bool(draws)


class SlowSampler(torch.utils.data.Sampler):
    def __iter__(self):
        for _ in range(40):
            time.sleep(0.1)
            yield [0, 1, 2, 3]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_line_of_the_sampler_is_known_as_such(workers):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with probed(steps=4) as session:
        loader = DataLoader(TensorDataset(X, Y), batch_sampler=SlowSampler(), num_workers=workers)
        for x, y in loader:
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert session.profile["places"]["sampler"] == line_of(SlowSampler.__iter__, "sleep")


def test_pure_python_is_not_hidden_behind_a_short_operator():
    def transform():
        total = 0
        for number in range(40_000):
            total += number * number
        return torch.tensor([float(total)] * 8)

    with probed(steps=150) as session:
        train(session, before=transform)
    lines = session.profile["lines"]["other"]
    of_loop = [line for line in lines if "number" in line["text"]]
    assert sum(line["share"] for line in of_loop) > 0.1  # hidden: next to nothing


def test_workers_are_left_alone_and_seen():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with probed(steps=4) as session:
        loader = DataLoader(TensorDataset(X.repeat(10, 1), Y.repeat(10)), 8, num_workers=1)
        for x, y in loader:
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    facts = session.profile["facts"]
    assert facts["loader_workers"] == 1
    assert facts["loader_not_persistent"]
    assert not facts["workers_restarted"], "one epoch starts them once"
    assert not facts["loader_rebuilt"]
    assert not facts["loader_serial"]


@pytest.mark.parametrize("workers", [0, 1])
def test_the_workers_of_an_evaluation_are_not_those_of_the_training(workers):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(X.repeat(10, 1), Y.repeat(10))
    with probed(steps=16) as session:
        training = DataLoader(data, 8, num_workers=workers, persistent_workers=workers > 0)
        validation = DataLoader(data, 40, num_workers=1 - workers)
        for _ in range(2):
            for x, y in training:
                optimizer.zero_grad()
                functional.cross_entropy(model(x), y).backward()
                optimizer.step()
            with torch.no_grad():
                for x, _ in validation:
                    model(x)
    facts = session.profile["facts"]
    assert facts["loaders"] == 2
    assert facts["loader_workers"] == 1, "one of them has"
    assert facts["loader_serial"] == (workers == 0)
    assert facts["fed_by_workers"] == (workers == 1)


def test_iterable_dataset_is_no_map():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(zip(X, Y, strict=True))

    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with probed(steps=2) as session:
        for _ in steps_of(session):
            for x, y in DataLoader(Stream(), batch_size=8):
                functional.cross_entropy(model(x), y).backward()
                optimizer.step()
    assert not session.profile["facts"]["map_style"]
    assert millis(session, "loader") > 0


def test_conversions_are_copies_but_not_those_that_do_nothing():
    with probed(steps=5) as session:
        train(session, before=lambda: X.to(torch.float32).to("cpu"))
    assert "copy" not in session.profile["phases"]
    with probed(steps=5) as session:
        train(session, before=lambda: X.to(torch.float16))
    assert millis(session, "copy") > 0
    assert session.profile["phases"]["copy"]["steps"] == 5
    assert not session.profile["facts"].get("float64_copies")


def test_saving(tmp_path):
    with probed(steps=3) as session:
        train(session, after=lambda: torch.save(X, tmp_path / "x.pt"))
    assert millis(session, "saving") > 0
    assert "test_probe.py" in session.profile["places"]["save"]


def test_a_tensor_that_is_pickled_is_not_saved():
    """As for what ranks send each other as objects: torch pickles memory by `torch.save`."""
    with probed(steps=3) as session:
        train(session, after=lambda: pickle.dumps(X))
    assert "saving" not in session.profile["phases"]


def test_closure_of_an_optimizer_has_its_forward_and_backward():
    model = net()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(X), Y)
        loss.backward()
        return loss

    with probed(steps=3) as session:
        for _ in steps_of(session):
            optimizer.step(closure)
    assert session.profile["steps"] == 3
    assert {"forward", "backward", "optimizer"} <= set(session.profile["phases"])
    assert "other" not in session.profile["phases"] or (
        session.profile["phases"]["optimizer"]["mean"] > session.profile["phases"]["other"]["mean"]
    )


def test_two_optimizers_make_one_step():
    one, two = net(), net()
    first = torch.optim.SGD(one.parameters(), lr=0.1)
    second = torch.optim.SGD(two.parameters(), lr=0.1)
    with probed(steps=6, warmup=4) as session:
        for _ in range(40):
            for model, optimizer in ((one, first), (two, second)):
                optimizer.zero_grad()
                functional.cross_entropy(model(X), Y).backward()
                optimizer.step()
            nap()
    assert session.profile["steps"] == 6
    assert session.profile["step"]["p10"] > 0.011


@pytest.fixture
def looked_at_seldom(monkeypatch):
    """However long a step takes on a busy machine, the probe rests as in very short ones."""
    monkeypatch.setattr("hotlap.seam.probe.rest.LONG", 1e15)
    for name in ("INTERVAL", "LONGEST", "RARELY"):
        monkeypatch.setattr(f"hotlap.seam.probe.sampler.{name}", 3.0)


@pytest.mark.usefixtures("looked_at_seldom")
def test_of_short_steps_few_are_looked_at_in_detail_and_rare_ones_all():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with probed(steps=600) as session:
        for index in range(700):
            optimizer.zero_grad()
            functional.cross_entropy(model(X), Y).backward()
            optimizer.step()
            if index % 100 == 50:
                nap()
                evaluate(model, batches=2)
    profile = session.profile
    assert profile["steps"] == 600
    assert profile["detailed"] < 450
    total = sum(phase["mean"] for phase in profile["phases"].values())
    assert total == pytest.approx(profile["step"]["mean"])
    assert profile["phases"]["evaluation"]["steps"] == 6
    assert millis(session, "evaluation") > 6 * 2 * 11 / 600
    assert profile["phases"]["forward"]["steps"] == pytest.approx(600, abs=1)


@pytest.mark.usefixtures("looked_at_seldom")
@pytest.mark.parametrize("wrapped", [False, True], ids=["plain", "wrapped by the program"])
def test_at_rest_torch_is_as_it_is_and_what_the_program_put_there_stays(monkeypatch, wrapped):
    theirs, calls = torch.autograd.backward, []
    seen = set()
    with probed(steps=600) as session:
        ours = torch.autograd.backward
        if wrapped:
            both = lambda *args, **kwargs: (calls.append(1), ours(*args, **kwargs))  # noqa: E731
            monkeypatch.setattr(torch.autograd, "backward", both)
        train(session, after=lambda: seen.add(torch.autograd.backward))
    if wrapped:
        assert seen == {both}
    else:  # `ours` is there until the first optimizer is met, another until the first rest
        assert theirs in seen
        assert len(seen - {ours}) == 3
    assert session.profile["phases"]["backward"]["mean"] > 0
    assert len(calls) == wrapped * len(steps_of(session))


def test_a_rest_ends_when_the_sampler_asks(monkeypatch):
    monkeypatch.setattr("hotlap.seam.probe.sampler.RARELY", 0.05)
    with probed(steps=1000) as session:
        for _ in range(6):
            train(session)
            if "profile" in session.kinds():
                break
    profile = session.profile
    assert profile["steps"] == 1000
    assert 64 + BURST // 2 < profile["detailed"] < 900


@pytest.mark.usefixtures("looked_at_seldom")
@pytest.mark.parametrize("wanted", [*range(64, 64 + 2 * BURST), 200])
def test_nothing_is_clocked_once_the_profile_is_sent(monkeypatch, wanted):
    made = []

    def record(*given):
        made.append(Recorder(*given))
        return made[-1]

    monkeypatch.setattr("hotlap.seam.probe.recorder.Recorder", record)
    with probed(steps=wanted) as session:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(wanted + 100):
            functional.cross_entropy(model(X), Y).backward()
            optimizer.step()
        assert session.profile["steps"] == wanted
        known = list(made[0].rest.ends)
        optimizer.step()
        assert made[0].rest.ends == known
        assert not made[0].rest.resting


@pytest.mark.usefixtures("looked_at_seldom")
def test_steps_of_an_optimizer_that_threads_share_are_all_looked_at():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        functional.cross_entropy(model(X), Y).backward()
        optimizer.step()

    with probed(steps=300) as session:
        for index in range(1000):
            if "profile" in session.kinds():
                break
            step()
            if index in {20, 200}:
                thread = threading.Thread(target=step)
                thread.start()
                thread.join()
    assert session.profile["steps"] == session.profile["detailed"] == 300


def test_long_steps_are_all_looked_at():
    with probed(steps=80) as session:
        train(session, after=lambda: time.sleep(LONG * 1.2e-9))
    assert session.profile["detailed"] == 80


def test_of_slow_steps_few_are_left_untimed(monkeypatch):
    monkeypatch.setattr("hotlap.seam.probe.recorder.MOST_UNTIMED_SECONDS", 0.05)
    with probed(warmup=50, steps=2, seconds=0.01) as session:
        train(session, between=lambda: time.sleep(0.03))
    found = session.profile
    assert found["warmup"] < 5
    assert 1 <= found["steps"] <= 2
    assert "too slow" in found["notes"]["memory"]


@pytest.mark.parametrize("warmup", [1, 50])
def test_a_profile_ends_at_its_deadline_wherever_it_is(warmup, monkeypatch):
    monkeypatch.setattr("hotlap.seam.probe.recorder.LEAST_SECONDS", 0.1)
    with probed(warmup=warmup, steps=400, until=time.monotonic() + 0.1) as session:
        for _ in train_steps(net()):
            time.sleep(0.01)
            if "profile" in session.kinds():
                break
    assert session.profile["steps"] < 100
    assert session.profile["phases"]["forward"]["mean"] > 0


def test_a_program_that_starts_after_the_deadline_is_timed_for_a_while():
    with probed(steps=3, until=time.monotonic() - 1.0) as session:
        train(session)
    assert session.profile["steps"] == 3
    assert session.profile["warmup"] == 1


def train_steps(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1000):
        optimizer.zero_grad()
        functional.cross_entropy(model(X), Y).backward()
        optimizer.step()
        yield step


# evaluation


def evaluate(model, *, grad=False, batches=4, mode="eval"):
    model.train(mode != "eval")
    with torch.set_grad_enabled(grad):
        for x, y in DataLoader(TensorDataset(X.repeat(batches, 1), Y.repeat(batches)), 8):
            nap()
            functional.cross_entropy(model(x), y)
    model.train()


def by_hand(model):
    model.eval()
    with torch.no_grad():
        for _ in range(3):
            nap()
            model(X)
    model.train()


@pytest.mark.usefixtures("looked_at_seldom")
@pytest.mark.parametrize("check", [evaluate, by_hand], ids=["loader", "by hand"])
def test_what_is_rare_is_seen_while_the_probe_rests(tmp_path, check):
    """Evaluations and saved files: each of them, in one step."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with probed(steps=450) as session:
        for index in range(4000):
            if "profile" in session.kinds():
                break
            optimizer.zero_grad()
            functional.cross_entropy(model(X), Y).backward()
            optimizer.step()
            if index % 150 == 75:
                check(model)
            if index % 150 == 100:
                torch.save(model.state_dict(), tmp_path / "model.pt")
    profile = session.profile
    assert profile["steps"] == 450
    assert profile["detailed"] < 300
    assert 2 <= profile["phases"]["saving"]["steps"] <= 5
    assert 2 <= profile["phases"]["evaluation"]["steps"] <= 5
    assert millis(session, "evaluation") > 2 * 2 * 11 / 450
    total = sum(phase["mean"] for phase in profile["phases"].values())
    assert total == pytest.approx(profile["step"]["mean"])


@pytest.mark.parametrize("grad", [False, True])
def test_evaluation_with_a_loader(grad):
    model = net()
    with probed(steps=3) as session:
        train(session, model, after=lambda: evaluate(model, grad=grad))
    # each batch naps, the last one within the wait for the end of the data
    assert millis(session, "evaluation") > 4 * 11
    assert millis(session, "other") < 11
    assert bool(session.profile["facts"].get("eval_with_grad")) is grad
    assert session.profile["places"]["evaluation"] == line_of(evaluate, "cross_entropy")
    assert not session.profile["facts"].get("eval_trained")


def test_evaluation_of_a_single_batch():
    model = net()
    with probed(steps=3) as session:
        train(session, model, after=lambda: evaluate(model, grad=True, batches=1))
    assert millis(session, "evaluation") > 11
    assert session.profile["facts"]["eval_with_grad"]


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_a_look_at_the_model_before_the_training_is_not_the_evaluation(mode):
    model = net()
    loader = DataLoader(TensorDataset(X, Y), 8)
    with probed(steps=3) as session:
        evaluate(model, grad=True, batches=1, mode=mode)
        model.train()
        next(iter(loader))
        train(session, model, after=lambda: evaluate(model))
    assert not session.profile["facts"].get("eval_with_grad")
    assert not session.profile["facts"].get("eval_in_train_mode")
    assert session.profile["facts"]["evaluation"]


def test_evaluation_without_a_loader():
    model = net()

    def check():
        model.eval()
        for _ in range(3):
            model(X)
            nap()
        model.train()

    with probed(steps=3) as session:
        train(session, model, after=check)
    assert millis(session, "evaluation") > 2 * 11
    assert session.profile["facts"]["eval_with_grad"]


@pytest.mark.parametrize("when", ["before", "between"])
def test_frozen_teacher_is_no_evaluation(when):
    teacher = net().eval()

    def teach():
        with torch.no_grad():
            teacher(X)

    loader = DataLoader(TensorDataset(X, Y), 8)
    feed = iter(loader)

    def feed_and_teach():
        nonlocal feed
        feed = iter(loader)
        next(feed)
        if when == "before":
            teach()

    between = teach if when == "between" else lambda: None
    with probed(steps=4) as session:
        train(session, before=feed_and_teach, between=between)
    assert "evaluation" not in session.profile["phases"]
    assert not session.profile["facts"].get("eval_with_grad")
    assert not session.profile["facts"].get("eval_trained")


def test_a_model_that_gives_its_own_targets_is_not_evaluated():
    model = net()

    def act_and_aim():
        with torch.no_grad():
            model(X)
        time.sleep(0.003)  # the memory is asked for a batch
        with torch.no_grad():
            model(X)

    with probed(steps=40) as session:
        train(session, model, before=act_and_aim)
    assert millis(session, "other") > 2.9
    assert session.profile["phases"].get("evaluation", {"median": 0.0})["median"] == 0.0
    with probed(steps=4) as session:
        train(session, model, before=lambda: evaluate(model))
    assert millis(session, "evaluation") > 0
    assert not session.profile["facts"]["asks_each_step"]


def test_a_validation_now_and_then_that_forgets_eval_is_one():
    model, count = net(), iter(range(1000))

    def validate():
        for _ in range(2 if next(count) % 4 == 0 else 0):
            with torch.no_grad():
                model(X)

    with probed(steps=40) as session:
        train(session, model, after=validate)
    assert session.profile["phases"]["evaluation"]["mean"] > 0


def test_training_in_eval_mode_is_training():
    model = net().eval()
    with probed(steps=4) as session:
        train(session, model)
    assert "evaluation" not in session.profile["phases"]
    assert session.profile["facts"]["eval_trained"]
    assert millis(session, "forward") > 0


def test_a_look_at_the_module_that_trains_next_is_an_evaluation():
    model = net()

    def teach():
        with torch.no_grad():
            teacher(X)

    teacher = net().eval()
    with probed(steps=4) as session:
        train(session, model, after=lambda: (model.eval()(X), model.train()))
    assert millis(session, "evaluation") > 0
    assert session.profile["facts"]["eval_with_grad"]
    with probed(steps=4) as session:
        train(session, before=teach)
    assert "evaluation" not in session.profile["phases"]


def test_an_evaluation_is_named_by_the_line_that_no_training_goes_through():
    model = net()

    def predict():
        return model(X)

    def validate():
        for _ in range(2):
            predict()

    def train(steps):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in steps:
            functional.cross_entropy(predict(), Y).backward()
            optimizer.step()
            model.eval()
            validate()
            model.train()

    with probed(steps=4) as session:
        train(steps_of(session))
    places = session.profile["places"]
    assert places["evaluation"] == line_of(validate, "predict()")
    assert places["evaluated"] == line_of(train, "validate()")


def test_an_evaluation_of_a_trainer_is_asked_for_by_the_call_that_trains():
    """The lines of the user's that lead to both are the calls of his functions, and that of fit."""
    model, library = net(), {"functional": functional, "Y": Y}
    source = """
def fit(steps, training, validation, optimizer):
    for _ in steps:
        functional.cross_entropy(training(), Y).backward()
        optimizer.step()
        for _ in range(2):
            validation()
"""
    exec(compile(source, "<library>", "exec"), library)

    def training():
        model.train()
        return model(X)

    def validation():
        model.eval()
        return model(X + 1)

    def fit(steps):
        library["fit"](steps, training, validation, torch.optim.SGD(model.parameters(), lr=0.1))

    with probed(steps=4) as session:
        fit(steps_of(session))
    places = session.profile["places"]
    assert places["evaluation"] == line_of(validation, "model(X + 1)")
    assert places["evaluated"] == line_of(fit, 'library["fit"]')


@pytest.mark.parametrize("length", [1, 0])
def test_a_text_that_is_generated_in_the_evaluation_without_a_cache(length):
    model = nn.Embedding(9, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with probed(steps=3) as session:
        for _ in steps_of(session):
            model(torch.ones(2, 4, dtype=torch.long)).sum().backward()
            optimizer.step()
            model.eval()
            for token in range(6):
                model(torch.ones(1, 3 + length * token, dtype=torch.long))
            model.train()
    assert session.profile["facts"]["generates_uncached"] is bool(length)


def test_gradients_of_torch_func_are_a_backward_pass(monkeypatch):
    monkeypatch.setattr("hotlap.seam.steps.optimizer_exists", lambda: False)  # of other tests
    model = net()
    weights = {name: p.detach() for name, p in model.named_parameters()}

    def loss_of(weights):
        return functional.cross_entropy(torch.func.functional_call(model, weights, (X,)), Y)

    with probed(steps=4) as session:
        for _ in steps_of(session):
            slopes = torch.func.grad(loss_of)(weights)
            weights = {name: p - 0.1 * slopes[name] for name, p in weights.items()}
    assert millis(session, "backward") > 0
    assert millis(session, "forward") > 0


def test_what_gradients_are_asked_of_in_eval_mode_is_no_idle_evaluation():
    model, inputs = net().eval(), X.clone().requires_grad_()

    def attack():
        for _ in range(2):
            torch.autograd.grad(model(inputs).sum(), inputs)

    with probed(steps=4) as session:
        train(session, after=attack)
    assert not session.profile["facts"].get("eval_with_grad")


def test_a_scripted_model_has_a_forward_and_tracing_one_is_not_disturbed():
    with probed(steps=4) as session:
        train(session, torch.jit.trace(net(), X))
    assert millis(session, "forward") > 0


@pytest.mark.parametrize("first_step", [False, True])
def test_lazy_modules_are_seen_once_they_are_initialised(first_step):
    torch.manual_seed(0)
    model = nn.Sequential(nn.LazyLinear(5), nn.ReLU(), nn.LazyLinear(3))
    with probed(steps=4) as session:
        if not first_step:
            model(X)
        train(session, model)
    assert millis(session, "forward") > 0
    assert session.profile["facts"]["linear_layers"], "their class is known by then"


# facts and places


def test_places_and_facts_of_a_plain_loop():
    with probed(steps=2) as session:
        train(session)
    places, facts = session.profile["places"], session.profile["facts"]
    assert places["model"] == line_of(train, "model(X)")
    assert places["backward"] == line_of(train, "loss.backward()")
    assert places["zero_grad"] == line_of(train, "zero_grad()")
    assert places["step"] == line_of(train, "optimizer.step()")
    assert places["optimizer"] == line_of(train, "torch.optim.SGD")
    assert facts["model"]
    assert facts["float32_model"]
    assert facts["optimizer_unfused"]
    for absent in ("cuda", "compiled", "autocast_on", "float64_model", "conv4d", "anomaly"):
        assert not facts[absent]
    assert not facts.get("zero_grad_false")
    assert facts["loaders"] == 0


def test_zero_grad_to_zeros():
    model = net()
    with probed(steps=2) as session:
        train(session, model, after=lambda: model.zero_grad(set_to_none=False))
    assert session.profile["facts"]["zero_grad_false"]


def test_tensors_made_of_arrays():
    array = np.zeros((3, 3), np.float32)

    def make():
        torch.tensor(array + 1)

    def views():
        torch.tensor(array)
        torch.tensor(array.T)
        torch.tensor(array[0])

    with probed(steps=2) as session:
        train(session, before=views)
    assert not session.profile["facts"].get("tensor_from_numpy"), "others hold their memory"
    with probed(steps=2) as session:
        train(session, before=lambda: (views(), make()))
    assert session.profile["facts"]["tensor_from_numpy"]
    assert session.profile["places"]["tensor"] == line_of(make, "torch.tensor")


@pytest.mark.filterwarnings("ignore:Creating a tensor from a list")
def test_a_tensor_of_another_dtype_than_its_array_needs_its_copy():
    array = np.zeros((3, 3))

    def convert():
        torch.tensor(array, dtype=torch.float32)

    def stack():
        torch.tensor([array[0], array[1]], dtype=torch.float32)

    with probed(steps=2) as session:
        train(session, before=convert)
    assert not session.profile["facts"].get("tensor_from_numpy")
    with probed(steps=2) as session:
        train(session, before=lambda: (convert(), stack()))
    assert session.profile["facts"]["tensor_from_numpy"], "number by number"
    assert session.profile["places"]["tensor"] == line_of(stack, "torch.tensor")


def test_a_model_in_float64_is_the_place_of_all_that_a_step_converts():
    def make():
        return net().double()

    with probed(steps=2) as session:
        model = make()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in steps_of(session):
            functional.cross_entropy(model(X.double()), Y).backward()
            optimizer.step()
    assert session.profile["facts"]["float64_model"]
    assert session.profile["places"]["float64"] == line_of(make, "double()")


def test_tensors_of_lists_of_numbers():
    with probed(steps=2) as session:
        train(session, before=lambda: torch.tensor([1.0]))
    assert not session.profile["facts"].get("tensor_from_numpy")


def test_copying_a_tensor_warns_at_the_users_line():
    def copy():
        return torch.tensor(X)

    with probed(steps=2) as session, pytest.warns(UserWarning, match="copy construct") as caught:
        train(session, before=copy)
    copies = [w for w in caught if "copy construct" in str(w.message)]  # not a late ResourceWarning
    assert {w.filename for w in copies} == {__file__}
    assert not session.profile["facts"].get("tensor_from_numpy")


def test_default_device_reaches_tensors():
    with probed(steps=1), torch.device("meta"):
        assert torch.tensor([1.0]).is_meta


@pytest.mark.parametrize("tensor", ["x.to(torch.float64)", "x.double()", "x + torch.tensor([1.0])"])
def test_compiled_code_is_traced_as_if_nobody_looked(tensor):
    torch._dynamo.reset()
    names = {"torch": torch}
    exec(f"def function(x):\n    return {tensor} * 2", names)
    with probed(steps=1):
        compiled = torch.compile(names["function"], fullgraph=True, backend="eager")
        torch._dynamo.utils.counters.clear()
        for _ in range(3):
            compiled(torch.ones(3))
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
        assert "to" in vars(torch.Tensor)


def test_double_precision_in_the_step_is_pointed_at_rather_than_the_model():
    def widen():
        X.double()

    with probed(steps=2) as session:
        model = net().double()
        train(session, model.float(), before=widen)
    assert session.profile["facts"]["float64_copies"]
    assert session.profile["places"]["float64"] == line_of(widen, "double")


def test_channels_last_and_convolutions():
    def images(memory_format):
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        model = model.to(memory_format=memory_format)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.randn(2, 3, 8, 8).to(memory_format=memory_format)
        with probed(steps=1) as session:
            for _ in steps_of(session):
                model(x).sum().backward()
                optimizer.step()
        return session.profile["facts"]

    assert images(torch.channels_last)["channels_last_on"]
    plain = images(torch.contiguous_format)
    assert plain["conv4d"]
    assert not plain["channels_last_on"]


@pytest.mark.parametrize("fast", [False, True])
def test_sixteen_bits_on_a_processor_without_units_for_them(monkeypatch, fast):
    monkeypatch.setattr("hotlap.seam.probe.forwards.fast_half", lambda: fast)
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with probed(steps=1) as session:
        for _ in steps_of(session):
            with torch.autocast("cpu", torch.bfloat16):
                model(torch.randn(2, 4)).float().sum().backward()
            optimizer.step()
    assert session.profile["facts"]["slow_half"] is not fast
    assert ("half" in session.profile["places"]) is not fast


def test_anomaly_detection_and_autocast():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with probed(steps=1) as session:
        for _ in steps_of(session):
            with (
                torch.autograd.detect_anomaly(check_nan=False),
                torch.autocast("cpu", torch.bfloat16),
            ):
                loss = functional.cross_entropy(model(X), Y)
            loss.backward()
            optimizer.step()
    facts = session.profile["facts"]
    assert facts["anomaly"]
    assert facts["autocast_on"]
    assert facts["dtype"] == "bfloat16"
    assert "test_probe.py" in session.profile["places"]["anomaly"]


def test_tokens():
    model = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 9))
    optimizer = torch.optim.Adam(model.parameters())
    tokens = torch.randint(0, 9, (2, 7))
    with probed(steps=20) as session:
        for _ in steps_of(session):
            model(tokens).sum().backward()
            optimizer.step()
    assert session.profile["samples"] == 2
    assert session.profile["tokens"] == 14


def sequences_first(samples):
    return torch.stack([x for x, _ in samples], dim=1), torch.tensor([y for _, y in samples])


SEQUENCES = [(torch.randn(7, 5), index % 3) for index in range(256)]


class Recurrent(nn.Module):
    """Takes (time, batch, features), as `nn.LSTM` does unless it is told otherwise."""

    def __init__(self, layer=nn.LSTM):
        super().__init__()
        self.layer, self.head = layer(5, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.layer(x)[0][-1])


def train_batches(session, model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _, (x, y) in zip(steps_of(session), batches, strict=False):
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU])
def test_time_steps_of_a_sequence_first_batch_are_no_samples(layer, workers):
    with probed(steps=12) as session:
        loader = DataLoader(
            SEQUENCES, 8, collate_fn=sequences_first, num_workers=workers,
            persistent_workers=bool(workers),
        )  # fmt: skip
        next(iter(loader))  # an epoch that was left early
        train_batches(session, Recurrent(layer), loader)
    assert session.profile["samples"] == 8


def test_rows_of_several_samples_count_as_one_sample():
    def graphs(samples):
        return torch.cat([x for x, _ in samples]), torch.zeros(7 * len(samples), dtype=torch.long)

    with probed(steps=12) as session:
        train_batches(session, nn.Linear(5, 3), DataLoader(SEQUENCES, 8, collate_fn=graphs))
    assert session.profile["samples"] == 8


def test_sequence_first_batches_without_a_loader_have_no_known_size():
    with probed(steps=12) as session:
        batches = [sequences_first(SEQUENCES[:8])] * len(steps_of(session))
        train_batches(session, Recurrent(), batches)
    assert session.profile["samples"] == 0


def test_what_follows_a_single_look_is_no_evaluation_in_time_nor_in_samples():
    """As a picture that is drawn of what a generator makes."""
    model = net()

    def draw():
        with torch.no_grad():
            model(X)
        time.sleep(0.05)

    loader = DataLoader(TensorDataset(X))
    with probed(steps=30) as session:
        train(session, model, before=lambda: next(iter(loader)), after=draw)
    profile = session.profile
    (line, *_) = profile["lines"]["other"]
    assert line["place"] == line_of(draw, "sleep")
    assert millis(session, "other") > 40
    assert not profile["lines"].get("evaluation")


def test_an_evaluation_that_calls_a_part_of_the_model_by_itself_is_one():
    """It comes after the steps in which new models are looked for."""
    model = nn.Sequential(net(), nn.Linear(3, 3))
    done = []

    def every_tenth():
        done.append(1)
        if len(done) % 10 == 0:
            model.eval()
            with torch.no_grad():
                for part in X.split(2):
                    model[0](part)
                    nap()
            model.train()

    with probed(steps=30) as session:
        train(session, model, after=every_tenth)
    assert millis(session, "evaluation") > 2


def test_samples_of_an_evaluation_are_no_samples_of_the_training():
    with probed(steps=12) as session:
        model = nn.Sequential(nn.Flatten(), nn.Linear(35, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        held_out = DataLoader(SEQUENCES[:128], 64)
        for _, (x, y) in zip(steps_of(session), DataLoader(SEQUENCES, 8), strict=False):
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            model.eval()
            for x_held, _ in held_out:
                model(x_held)
            model.train()
    assert session.profile["samples"] == 8


# diagnostics


def test_flops_are_those_of_the_matrix_products():
    with probed(steps=1) as session:
        train(session)
    forward = 2 * 8 * (4 * 5 + 5 * 3)
    gradients = 2 * 8 * (4 * 5 + 2 * 5 * 3)  # none for the first layer's input
    assert session.profile["flops"] == forward + gradients


@pytest.mark.parametrize("directions", [1, 2])
def test_flops_of_a_fused_recurrent_layer(directions):
    model = nn.LSTM(8, 16, num_layers=2, bidirectional=directions == 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tokens = torch.randn(5, 4, 8)
    with probed(steps=1) as session:
        for _ in steps_of(session):
            model(tokens)[0].sum().backward()
            optimizer.step()
    weights = sum(w.numel() for name, w in model.named_parameters() if "weight" in name)
    assert session.profile["flops"] == 3 * 2 * 5 * 4 * weights


def test_flops_of_attention_on_the_cpu():
    class Attend(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, x):
            return functional.scaled_dot_product_attention(x * self.scale, x, x)

    model = Attend()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(2, 3, 16, 8)
    with probed(steps=1) as session:
        for _ in steps_of(session):
            model(x).sum().backward()
            optimizer.step()
    product = 2 * 2 * 3 * 16 * 16 * 8
    assert session.profile["flops"] == 2 * product + 5 * product


def test_memory_by_owner():
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    parameters = 4 * sum(p.numel() for p in model.parameters())
    with probed(steps=1) as session:
        for _ in steps_of(session):
            optimizer.zero_grad()
            functional.cross_entropy(model(X), Y).backward()
            optimizer.step()
    owners = session.profile["memory"]["by_owner"]
    assert owners["parameters"] == owners["gradients"] == parameters
    assert owners["optimizer state"] >= 2 * parameters
    # the input, the hidden layer, the log-probabilities, the targets
    assert owners["activations"] >= 4 * 8 * (4 + 5 + 3)
    peak = session.profile["memory"]["peak"]["resident"]
    before = owners["Python, torch and data at the first step"]
    assert 50 * 2**20 < before <= peak, "what torch alone takes"
    assert session.profile["world"] == 1


def test_failing_diagnosis_is_noted_and_the_training_goes_on(monkeypatch):
    def fail(_):
        raise RuntimeError("no such luck")

    monkeypatch.setattr(CountFlops, "begin", fail)
    with probed(steps=2) as session:
        train(session)
    assert session.profile["flops"] is None
    assert "no such luck" in session.profile["notes"]["flops"]
    assert session.profile["memory"]["by_owner"]["parameters"]


def test_compiled_programs_are_not_diagnosed(monkeypatch):
    monkeypatch.setattr("hotlap.seam.probe.diagnostics.anything_compiled", lambda: True)
    with probed(steps=2) as session:
        train(session)
    assert session.profile["diagnostic"] == 0
    assert set(session.profile["notes"]) == {
        "flops", "invariants", "memory", "modules", "operators", "retained",
    }  # fmt: skip


# the run as a whole


def test_training_is_the_same_with_and_without():
    def losses(**options):
        model, found = net(), []
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        torch.manual_seed(1)
        for x, y in DataLoader(TensorDataset(X.repeat(9, 1), Y.repeat(9)), 4, shuffle=True):
            optimizer.zero_grad()
            loss = functional.cross_entropy(functional.dropout(model(x)), y)
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    plain = losses()
    with probed(steps=8):
        assert losses() == plain


def test_everything_is_put_back():
    def standing():
        owners = (torch.Tensor, torch.optim.Optimizer, nn.Module, DataLoader, torch.amp.GradScaler)
        names = ("to", "double", "backward", "zero_grad", "__init__", "__iter__", "__call__")
        return [vars(owner).get(name) for owner in owners for name in names] + [
            torch.tensor,
            torch.save,
            torch.autograd.backward,
        ]

    net()
    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    before = standing()
    with probed(steps=1) as session:
        model = train(session)
    assert standing() == before
    assert "_compiled_call_impl" not in model.__dict__


def test_short_run_is_told_of_by_its_warm_up():
    with probed(warmup=50, steps=5) as session:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            functional.cross_entropy(model(X), Y).backward()
            optimizer.step()
        _end(session)
    assert session.profile["ended"] == "exit"
    assert session.profile["steps"] == 2, "nothing tells where the first began"
    assert session.profile["warmup"] == 1
    assert session.profile["samples"] == 8


@pytest.mark.parametrize("steps", [1, 3])
def test_what_lies_in_front_of_the_first_step_is_no_part_of_it(steps):
    """Setting up takes longer than the few steps of a short program."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with probed(steps=50, warmup=20) as session:
        time.sleep(0.3)
        for _ in range(steps):
            functional.cross_entropy(model(X), Y).backward()
            optimizer.step()
        _end(session)
    assert session.profile["step"]["mean"] < 0.1
    assert session.profile["steps"] == max(1, steps - 1)


def _end(session):
    """What atexit would call."""
    import gc

    from hotlap.seam.probe import _Report

    for report in gc.get_objects():
        if type(report) is _Report and report._rec.session is session:
            report.send("exit")


def test_process_without_a_step_says_nothing():
    with probed(steps=1) as session:
        net()(X)
        _end(session)
    assert session.kinds() == []


def test_first_backward_and_step_are_told():
    with probed(steps=1) as session:
        train(session)
    assert session.kinds() == ["backward", "profile"]
    assert session.told == 1


def test_stop_waits_for_the_parent():
    with probed(steps=1, stop=True) as session:
        train(session)
    assert session.wire.waited == 1


def test_only_the_first_rank_reports(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    with probed(steps=1) as session:
        train(session)
    assert "profile" not in session.kinds()


def test_time_bounds_the_run():
    with probed(steps=10_000, seconds=0.2) as session:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        end = time.monotonic() + 20
        while "profile" not in session.kinds() and time.monotonic() < end:
            functional.cross_entropy(model(X), Y).backward()
            optimizer.step()
    assert 0 < session.profile["steps"] < 10_000
    assert session.profile["ended"] == "steps"


def test_other_threads_pass_through():
    import threading

    model = net()

    def elsewhere():
        with torch.no_grad():
            for _ in range(3):
                model(X.double().float())

    def run():
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()

    with probed(steps=3) as session:
        train(session, after=run)
    assert "evaluation" not in session.profile["phases"]
    assert "copy" not in session.profile["phases"]


DATA = TensorDataset(X.repeat(4, 1), Y.repeat(4))


class PerEpoch:
    """Gives each epoch a new loader, of the same dataset or one that is made with it."""

    def __init__(self, *, same, **options):
        self.same, self.options = same, options

    def __iter__(self):
        data = DATA if self.same else TensorDataset(*DATA.tensors)
        return iter(DataLoader(data, 16, num_workers=1, **self.options))


class AskedTwice(DataLoader):
    """Its `iter()` is called twice, as `tqdm.auto` does in a notebook."""

    def __iter__(self):
        super().__iter__()
        return super().__iter__()


@pytest.mark.parametrize(
    ("made", "restarted", "rebuilt", "not_persistent"),
    [
        (lambda: PerEpoch(same=True, persistent_workers=True), True, True, False),
        (lambda: PerEpoch(same=True), True, True, True),
        (lambda: PerEpoch(same=False), True, True, True),
        (lambda: DataLoader(DATA, 16, num_workers=1), True, False, True),
        (lambda: DataLoader(DATA, 16, num_workers=1, persistent_workers=True),
         False, False, False),
        (lambda: DataLoader(DATA, 16), False, False, True),
        (lambda: AskedTwice(TensorDataset(X.repeat(60, 1), Y.repeat(60)), 16, num_workers=1),
         False, False, True),
    ],
    ids=["anew, persistent", "anew", "anew with its data", "iterated again", "persistent",
         "serial", "asked twice"],
)  # fmt: skip
def test_workers_that_start_anew_are_told_by_the_way_they_do(
    made, restarted, rebuilt, not_persistent
):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with probed(steps=4) as session:
        loader = made()
        while "profile" not in session.kinds():
            for x, y in loader:
                optimizer.zero_grad()
                functional.cross_entropy(model(x), y).backward()
                optimizer.step()
    facts = session.profile["facts"]
    found = (facts["workers_restarted"], facts["loader_rebuilt"], facts["loader_not_persistent"])
    assert found == (restarted, rebuilt, not_persistent)


def test_loaders_of_one_place_for_several_datasets_are_no_rebuilt_ones():
    def made(repeats):
        return DataLoader(TensorDataset(X.repeat(repeats, 1), Y.repeat(repeats)), 16, num_workers=1)

    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with probed(steps=4) as session:
        loaders = [made(4), made(8)]
        for x, y in (batch for loader in loaders for batch in loader):
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert not session.profile["facts"]["workers_restarted"]
    assert not session.profile["facts"]["loader_rebuilt"]


def test_functions_that_techniques_replace_are_proposed_where_they_are_called():
    model = nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.LayerNorm(5), nn.Linear(5, 3))
    called = {"calls_gelu": True, "calls_norm": True, "calls_softmax": False}
    for seen, layers in ((called, model), (dict.fromkeys(called, False), net())):
        with probed(steps=5) as session:
            train(session, layers)
        facts = session.profile["facts"]
        assert {name: facts[name] for name in called} == seen
        taken = session.profile["operators"]
        assert {name for name, seconds in taken.items() if 0 < seconds < 1} >= (
            {"fused_gelu", "fused_norm"} if seen["calls_norm"] else set()
        ), "what the calls took, by technique"
        assert not facts["calls_cross_entropy"], "its logits are small"


class Attending(nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by, self.inner = by, nn.MultiheadAttention(4, 1, batch_first=True)
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        x = x[:, None]
        if self.by == "module":
            x, _ = self.inner(x, x, x)
        elif self.by == "function":
            x = functional.scaled_dot_product_attention(x, x, x)
        else:
            x = x * functional.softmax(x, dim=1)
        return self.out(x[:, 0])


@pytest.mark.parametrize(("by", "attends"), [("module", True), ("function", True), ("sum", False)])
def test_attention_is_told_from_other_weighted_sums(by, attends):
    with probed(steps=5) as session:
        train(session, Attending(by))
    assert session.profile["facts"]["attends"] is attends


def test_a_cross_entropy_of_large_logits_is_told():
    many = nn.Sequential(
        nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, LARGE_LOGITS_BYTES // len(X) // 4)
    )
    with probed(steps=5) as session:
        train(session, many)
    assert session.profile["facts"]["calls_cross_entropy"]


def test_where_no_step_could_be_watched_any_function_may_be_called():
    found = operators.facts(None)
    assert all(found[fact] for fact in replaced_functions())
    assert not {"fused_gelu", "fused_norm"} & found["unchanged"].keys(), "they are raced"


@pytest.mark.parametrize(
    ("pin", "unchanged"),
    [
        ("", {"fused_gelu", "fused_norm"}),  # too small to be worth it
        ("*=torch", {"fused_gelu", "fused_norm"}),
        ("gelu=native,norm=torch", {"fused_norm"}),
        ("*=native", set()),
    ],
)
def test_a_swap_that_would_serve_no_call_of_the_step_is_told(pin, unchanged, monkeypatch):
    monkeypatch.setenv("HOTLAP_IMPLEMENTATIONS", pin)
    model = nn.Sequential(nn.Linear(4, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))
    with probed(steps=5) as session:
        train(session, model)
    told = session.profile["facts"]["unchanged"]
    assert told.keys() & {"fused_gelu", "fused_norm"} == unchanged
    assert "fused_softmax" not in told, "what is not called has a need that says so"
    applies = dict.fromkeys(("model", "calls_gelu"), True) | {"unchanged": told}
    assert bool(technique("fused_gelu").missing(applies)) is ("fused_gelu" in unchanged)


def test_a_swap_that_cannot_be_judged_may_change_something(monkeypatch):
    modes = []

    def fail(*_, **__):
        modes.append(torch._C._len_torch_dispatch_stack())
        raise RuntimeError("a failure of our own")

    monkeypatch.setattr("hotlap.kernels.swaps.serves_gelu", fail)
    with probed(steps=5) as session:
        train(session, nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.Linear(5, 3)))
    assert "fused_gelu" not in session.profile["facts"]["unchanged"]
    assert modes == [0], "what it measures is neither counted nor slowed down"
    assert session.profile["flops"], "the diagnosis beside it is not disturbed"


def test_the_functions_watched_are_those_that_techniques_replace():
    assert replaced_functions() == {
        "calls_einsum": ("torch.einsum", "torch.functional.einsum"),
        "calls_gelu": ("torch.nn.functional.gelu",),
        "calls_softmax": ("torch.nn.functional.softmax",),
        "calls_norm": ("torch.nn.functional.layer_norm", "torch.nn.functional.rms_norm"),
        "calls_cross_entropy": ("torch.nn.functional.cross_entropy",),
    }
