"""What one file of a project tells another: options, constants, classes, gradients switched off."""

from pathlib import Path

import pytest

from hotlap.source import lint as linting
from hotlap.source.config import Config
from hotlap.source.lint import lint
from hotlap.source.lint_cache import LintCache

OPTIONS = """\
import argparse
def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default={workers})
    parser.add_argument("--hidden-size", default=500)
    return parser.parse_args()
"""
DATA = """\
from torch.utils.data import DataLoader
def loaders(args, data):
    return DataLoader(data, args.batch, num_workers=args.workers)
"""
MODEL = """\
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(8, 8){extra}
"""
TRAIN = """\
import torch
from torch.utils.data import DataLoader
from lib.data import loaders
from lib.model import Net
from options import options
args = options()
model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
held_out = DataLoader(test_set, 32, pin_memory=True, num_workers=0)
for epoch in range(3):
    for x, y in loaders(args, train_set):
        optimizer.zero_grad()
        criterion(model(x.cuda(non_blocking=True)), y).backward()
        optimizer.step()
    with torch.no_grad():
        for x, y in held_out:
            seen.append(model(x.cuda(non_blocking=True)))
"""


@pytest.fixture
def write(tmp_path):
    def write(**files):
        for name, text in files.items():
            path = tmp_path / (name.replace("__", "/") + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return write


@pytest.fixture
def found(tmp_path):
    def found(*paths, hints=True):
        spots = lint(
            [tmp_path / path for path in paths] or [tmp_path],
            Config(tmp_path, hints=hints),
            LintCache(tmp_path / ".cache"),
        )
        return {(str(spot.path.relative_to(tmp_path)), spot.id, spot.hint) for spot in spots}

    return found


def project(write, workers=0, extra=""):
    write(
        options=OPTIONS.format(workers=workers),
        lib__data=DATA,
        lib__model=MODEL.format(extra=extra),
        train=TRAIN,
    )


def test_the_default_of_an_option_counts_where_it_is_used(write, found):
    project(write, workers=0)
    assert ("lib/data.py", "serial_loader", True) in found()
    assert not [id_ for _, id_, _ in found() if id_ == "workers_restarted"]
    project(write, workers=4)
    assert ("lib/data.py", "workers_restarted", True) in found()
    assert ("lib/data.py", "serial_loader", True) not in found()


def test_one_file_is_judged_with_what_it_imports(write, found):
    project(write, extra="\n        self.two = nn.Dropout(0.1)")
    assert ("train.py", "eval_mode_missing", False) in found("train.py")
    assert {path for path, _, _ in found("train.py")} == {"train.py"}
    project(write)
    assert ("train.py", "eval_mode_missing", False) not in found("train.py")


def test_a_loader_is_unpinned_where_another_file_uses_the_gpu(write, found):
    project(write)
    assert ("lib/data.py", "unpinned_loader", True) in found()
    write(train=TRAIN.replace("cuda", "other"))
    assert ("lib/data.py", "unpinned_loader", True) not in found()


def test_gradients_may_be_off_where_a_function_of_another_file_is_called(write, found):
    evaluation = "import torch\ndef evaluate(model, loader):\n    model.eval()\n" \
        "    for x, y in loader:\n        hits(model(x), y)\n"  # fmt: skip
    call = "import torch\nfrom evaluation import evaluate\n{}evaluate(model, loader)\n"
    write(evaluation=evaluation, train=call.format(""))
    assert ("evaluation.py", "eval_with_grad", False) in found()
    write(train=call.format("with torch.no_grad():\n    "))
    assert ("evaluation.py", "eval_with_grad", False) not in found()


ON_DEVICE = """\
import torch
from torch.utils.data import {more}Dataset


class Rows(Dataset):
    def __getitem__(self, i):
        return torch.as_tensor(self.rows[i]){moved}

    def __len__(self):
        return 9
"""
LOADER = "loader = DataLoader(Rows(), batch_size=4)\n"


def test_workers_are_advised_after_the_copies_of_the_data_set_are_gone(write, tmp_path):
    def advice():
        spots = lint([tmp_path], Config(tmp_path, hints=True), LintCache(tmp_path / ".cache"))
        return [spot.says for spot in spots if spot.id == "serial_loader"]

    imports = "from torch.utils.data import DataLoader\nfrom rows import Rows\n"
    for moved, first in (
        (".cuda()", True),
        ("", False),
        (".to('cuda')", True),
        (".float()", False),
    ):
        write(rows=ON_DEVICE.format(more="", moved=moved), train=imports + LOADER)
        (said,) = advice()
        assert ("first take the copies to the device out of the data set" in said) is first
        write(
            rows=ON_DEVICE.format(more="DataLoader, ", moved=moved) + LOADER, train="import torch\n"
        )
        (said,) = advice()
        assert ("first take the copies to the device out of the data set" in said) is first


def test_two_programs_of_one_tree_stay_apart(write, found):
    write(
        one__options=OPTIONS.format(workers=0), one__data="import options\n" + DATA,
        two__options=OPTIONS.format(workers=8), two__data="import options\n" + DATA,
    )  # fmt: skip
    assert ("one/data.py", "serial_loader", True) in found()
    assert ("two/data.py", "workers_restarted", True) in found()


def test_a_second_run_judges_only_what_changed(write, found, monkeypatch):
    project(write)
    first = found()
    judged = []
    source = linting.Source
    monkeypatch.setattr(
        linting, "Source", lambda path, *rest: judged.append(path.name) or source(path, *rest)
    )
    assert found() == first
    assert not judged
    write(lib__model=MODEL.format(extra="  # only a remark"))
    assert found() == first
    assert set(judged) == {"model.py"}
    judged.clear()
    project(write, workers=6)
    assert found() != first
    assert "data.py" in judged


def test_a_cache_that_cannot_be_written_or_read_changes_nothing(write, found, tmp_path):
    project(write)
    first = found()
    for entry in (tmp_path / ".cache").rglob("*.json"):
        entry.write_text("{")
    assert found() == first
    spots = lint([tmp_path], Config(tmp_path, hints=True), LintCache(Path("/proc/nowhere")))
    assert len(list(spots)) >= len(first)


def test_imports_in_a_circle_and_of_oneself_end(write, found):
    write(a="import b, a\nfrom b import *\nX = 1\n", b="from a import *\nimport torch\ny = Z\n")
    assert found() == set()


STEP = """\
import torch
from helpers import lengths_of, report
from net import Net
model = Net(5, 100).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
for step, (x, y) in enumerate(loader):
    optimizer.zero_grad()
    size = lengths_of(x)
    criterion(model.forward(model.parse(x)), y).backward()
    optimizer.step()
    seen.append(step)
    if step % 100 == 0:
        report(x)
"""
HELPERS = """\
def lengths_of(x):
    return x.cuda().max().item()


def report(x):
    print(x.cuda().max().item())
"""
NET = """\
from torch import nn


class Net(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.embedding = nn.Linear(width, 64)

    def parse(self, x):
        return x.cuda().sum().item()


class Rows:
    def append(self, x):
        self.last = x.cuda().sum().item()
"""


def test_what_a_step_calls_in_other_files_runs_at_each_step(write, tmp_path):
    write(train=STEP, helpers=HELPERS, net=NET)
    spots = lint([tmp_path], Config(tmp_path, hints=True), LintCache(tmp_path / "cache"))
    found = {(spot.path.name, spot.line) for spot in spots if spot.id == "item_in_step"}
    assert found == {("helpers.py", 2), ("net.py", 10)}


def test_numbers_passed_to_a_class_of_another_file_are_known_there(write, tmp_path):
    write(train=STEP, helpers=HELPERS, net=NET)
    spots = lint([tmp_path], Config(tmp_path, hints=True), LintCache(tmp_path / "cache"))
    assert next(s.says for s in spots if s.id == "odd_dimension").endswith("(in_features=100)")


def test_paths_below_the_working_directory_find_modules_from_the_root(write, tmp_path, monkeypatch):
    write(package__train=STEP.replace("from helpers", "from package.helpers"),
          package__helpers=HELPERS)  # fmt: skip
    monkeypatch.chdir(tmp_path)
    given = [Path("package/train.py"), Path("package/helpers.py")]
    spots = lint(given, Config(tmp_path, hints=True), LintCache(tmp_path / "cache"))
    assert ("helpers.py", 2) in {(s.path.name, s.line) for s in spots if s.id == "item_in_step"}


def test_an_example_does_not_count_what_the_library_beside_it_mentions(write, tmp_path):
    write(library____init__="from library.fast import compiled",
          library__fast="import torch\ncompiled = torch.compile(model)",
          examples__train="from library import compiled\n" + STEP)  # fmt: skip
    spots = lint([tmp_path], Config(tmp_path, hints=True), LintCache(tmp_path / "cache"))
    assert "train.py" in {spot.path.name for spot in spots if spot.id == "uncompiled_model"}


TRAINER = """\
import torch
class Trainer:
    def __init__(self, model):
        self.model, self.optimizer = model, torch.optim.Adam(model.parameters())
    def optimize(self, images, labels):
        self.optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(self.model(images), labels)
        self.go_back(loss)
        return loss
    def go_back(self, loss):
        loss.backward()
        self.optimizer.step()
    def whole_epoch(self, images):
        for one in images:
            self.go_back(self.model(one).sum())
"""
DRIVER = """\
from trainer import Trainer
import torch
trainer = Trainer(model.cuda())
for epoch in range(9):
    for images, labels in batches:
        loss = trainer.optimize(images.cuda(), labels.cuda())
        seen.append(loss.item())
    total = trainer.whole_epoch(batches)
    print(total.item())
"""


def test_a_loop_that_calls_a_step_of_another_file_is_a_step_loop(write, tmp_path):
    write(trainer=TRAINER, driver=DRIVER)
    spots = lint([tmp_path], Config(tmp_path, hints=True), LintCache(tmp_path / "cache"))
    assert {(s.path.name, s.line) for s in spots if s.id == "item_in_step"} == {("driver.py", 7)}


LOOP = """\
import torch
def train_epoch(model, loader, optimizer):
    for i, (x, y) in enumerate(loader):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        (loss / 2).backward()
        if (i + 1) % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
HOLDER = """\
import torch
from engine import train_epoch
class Trainer:
    def __init__(self, model, optimizer):
        self.net, self.optimizer = model, optimizer
        self.model = model
    def fit(self, loader):
        train_epoch(self.model, loader, self.optimizer)
"""
WRAPPING = "from torch.nn.parallel import DistributedDataParallel as DDP\n"


@pytest.mark.parametrize(
    "files",
    [
        {"train": f"{WRAPPING}from engine import train_epoch\n"
                  "def main(net, data, optimizer):\n"
                  "    model = DDP(net)\n    train_epoch(model, data, optimizer)\n"},
        {"train": f"{WRAPPING}import engine\nnet = DDP(net)\n"
                  "engine.train_epoch(optimizer=o, loader=data, model=net)\n"},
        {"train": f"{WRAPPING}from trainer import Trainer\n"
                  "Trainer(DDP(net), optimizer).fit(data)\n", "trainer": HOLDER},
        {"train": "import torch\nfrom engine import train_epoch\nfrom ranks import wrapped\n"
                  "model = wrapped(net)\ntrain_epoch(model, data, optimizer)\n",
         "ranks": f"{WRAPPING}def wrapped(net):\n    net = DDP(net)\n    return net\n"},
    ],
    ids=["parameter", "keyword", "attribute", "returned"],
)  # fmt: skip
def test_a_wrapped_model_is_known_in_the_file_that_it_is_passed_to(write, found, files):
    write(engine=LOOP, **files)
    assert ("engine.py", "synced_accumulation", False) in found()


@pytest.mark.parametrize(
    ("files", "engine"),
    [
        ({"train": "import torch\nfrom engine import train_epoch\ntrain_epoch(net, data, o)\n"},
         LOOP),
        ({"train": f"{WRAPPING}from engine import train_epoch, test\n"
                   "test(DDP(net))\ntrain_epoch(net, data, o)\n"},
         LOOP + "def test(model): ...\n"),
        ({"train": f"{WRAPPING}from engine import train_epoch\n"
                   "train_epoch(DDP(net), data, o)\n"},
         LOOP.replace("        loss =", "        with model.no_sync(): pass\n        loss =")),
    ],
    ids=["nothing wrapped", "another function's", "no_sync"],
)  # fmt: skip
def test_a_model_that_is_not_wrapped_or_not_reduced_is_left_alone(write, found, files, engine):
    write(engine=engine, **files)
    assert "synced_accumulation" not in {name for _, name, _ in found()}
