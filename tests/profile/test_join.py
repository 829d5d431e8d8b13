from dataclasses import asdict, replace
from pathlib import Path

import pytest

from hotlap.core.errors import UsageError
from hotlap.profile.join import Past, joined
from hotlap.profile.model import Finding, Remedy
from hotlap.profile.sources import digest, line_digests
from hotlap.source.config import Config
from hotlap.source.lint import Spot

SCRIPT = """\
import torch
from torch import nn

def train(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(loss.item())
"""


def spot(path, line, end=0, phases=(), technique="host_sync", **more):
    return Spot(Path(path), line, 1, "seen", "says", "remedy", technique, phases=phases,
                end_line=end or line, **more)  # fmt: skip


def document(path, lines, findings=(), step=0.0142, phases=()):
    content = path.read_bytes()
    known = {"digest": digest(content), "line_digests": line_digests(content), "lines": lines}
    files = {str(path): known}
    return {
        "step": step,
        "files": files,
        "phases": [{"name": name, "mean": mean} for name, mean in dict(phases).items()],
        "findings": [asdict(f) for f in findings],
        "folder": str(path.parent),
        "places": {},
        "facts": {},
        "backward_by_line": [],
    }


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def test_cost_is_the_time_on_the_lines_of_the_spot(script):
    past = Past(document(script, {"7": {"forward": (0.004, 40)}, "10": {"other": (0.0019, 19)}}))
    cost = past.cost(spot(script, 10))
    assert cost.seconds == pytest.approx(0.0019)
    assert cost.cost == "1.9 ms of 14.2 ms a step"
    assert cost.worth
    assert past.cost(spot(script, 6, end=10)).seconds == pytest.approx(0.0059)


@pytest.mark.parametrize(("seconds", "cost"), [(40 * 12e-6, 0.004), (40 * 80e-6, 0.0)])
def test_what_needs_small_operators_costs_nothing_where_they_are_large(script, seconds, cost):
    found = document(script, {"7": {"forward": (0.004, 40)}})
    layers = spot(script, 7, small_operators=True)
    assert not Past(found).cost(layers).seconds, "how large they are is not known"
    found["files"][str(script)]["operators"] = {"7": (40, seconds, 0.0), "8": (1, 1.0, 0.0)}
    assert Past(found).cost(layers).seconds == cost


def test_of_a_spot_that_was_timed_no_more_than_that_is_its_cost(script):
    past = Past(document(script, {"7": {"forward": (0.004, 40)}}))
    timed = past.cost(spot(script, 7, seconds=0.0012))
    assert timed.seconds == pytest.approx(0.0012)
    assert timed.cost == "1.2 ms of 14.2 ms a step"
    assert past.cost(spot(script, 7, seconds=0.02)).seconds == pytest.approx(0.004)


def test_only_the_phases_of_the_pattern_count(script):
    lines = {"10": {"other": (0.002, 9), "forward": (0.003, 9), "loss": (0.001, 9)}}
    past = Past(document(script, lines))
    assert past.cost(spot(script, 10, phases=("other",))).seconds == pytest.approx(0.003)
    assert past.cost(spot(script, 10, phases=("forward",))).seconds == pytest.approx(0.004)
    assert past.cost(spot(script, 10, phases=("data",))).seconds == 0.0
    assert past.cost(spot(script, 10)).seconds == pytest.approx(0.006)


@pytest.mark.parametrize(("technique", "part"), [("host_sync", 1.0), ("no_copy_from_numpy", 0.3)])
def test_a_call_around_a_spot_counts_only_for_values_that_are_read(script, technique, part):
    calls = [(0, 40, 0.7), (6, 20, 0.3)]
    past = Past(document(script, {"10": {"other": (0.002, 90, calls)}}))
    inner = replace(spot(script, 10, technique=technique), column=7, end_column=21)
    assert past.cost(inner).seconds == pytest.approx(0.002 * part)


def test_work_that_autograd_follows_costs_its_part_of_the_backward_pass(script):
    lines = {"6": {"forward": (0.001, 9)}, "7": {"loss": (0.001, 9)}, "8": {"backward": (0.006, 9)}}
    past = Past(document(script, lines, phases={"forward": 0.004, "backward": 0.006}))
    plain = past.cost(spot(script, 6, end=7, phases=("forward", "backward")))
    assert plain.seconds == pytest.approx(0.002)
    assert "estimated" not in plain.cost
    both = past.cost(spot(script, 6, end=7, phases=("forward", "backward"), differentiated=True))
    assert both.seconds == pytest.approx(0.002 + 0.006 * 0.5)
    assert both.behind == pytest.approx(0.003)
    assert dict(both.by_phase)["backward"] == pytest.approx(0.003)
    assert both.cost == "5.0 ms of 14.2 ms a step, of which the backward part is estimated"


def test_the_backward_part_is_that_of_its_lines_where_it_was_timed_by_line(script):
    lines = {"6": {"forward": (0.001, 9)}, "7": {"loss": (0.001, 9)}}
    whole = document(script, lines, phases={"forward": 0.004, "backward": 0.006})
    whole["files"][str(script)]["operators"] = {"6": (3, 0.001, 0.9), "8": (1, 0.001, 0.1)}
    whole["backward_by_line"] = [{}]
    past = Past(whole)
    dear = past.cost(spot(script, 6, differentiated=True))
    assert dear.seconds == pytest.approx(0.001 + 0.9 * 0.006)
    assert dear.cost == "6.4 ms of 14.2 ms a step"
    undifferentiated = past.cost(spot(script, 7, differentiated=True))
    assert undifferentiated.seconds == pytest.approx(0.001)


def test_the_backward_part_is_never_more_than_the_backward_pass(script):
    past = Past(
        document(
            script, {"7": {"forward": (0.005, 9)}}, phases={"forward": 0.004, "backward": 0.006}
        )
    )
    assert past.cost(spot(script, 7, differentiated=True)).behind == pytest.approx(0.006)
    alone = Past(document(script, {"7": {"other": (0.005, 9)}}, phases={"other": 0.005}))
    assert alone.cost(spot(script, 7, differentiated=True)).seconds == pytest.approx(0.005)


def test_a_pattern_costs_what_all_of_its_statements_cost(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(
        "import torch\n\n\n"
        "def attend(q, k, v, mask):\n"
        "    scores = q @ k.transpose(-2, -1)\n"
        "    scores = scores.masked_fill(mask, -1e9)\n"
        "    weights = torch.softmax(scores, dim=-1)\n"
        "    return weights @ v\n"
    )
    lines = {str(n): {"forward": (0.001, 9)} for n in range(4, 9)}
    seen = document(path, lines, phases={"forward": 0.008, "backward": 0.002})
    (found,) = joined([path], seen, Config(root=tmp_path))
    assert (found.spot.id, found.spot.line, found.spot.since) == ("attention_by_hand", 8, 5)
    assert found.seconds == pytest.approx(0.004 + 0.001)


def test_the_statistics_of_a_formula_are_part_of_it(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(
        "import torch\n\n\n"
        "def norm(x, weight, bias):\n"
        "    mean = x.mean(-1, keepdim=True)\n"
        "    var = x.var(-1, keepdim=True)\n"
        "    return weight * (x - mean) / torch.sqrt(var + 1e-5) + bias\n"
    )
    lines = {str(n): {"forward": (0.002, 9)} for n in range(5, 8)}
    (found,) = joined([path], document(path, lines), Config(root=tmp_path))
    assert (found.spot.line, found.spot.since) == (7, 5)
    assert found.seconds == pytest.approx(0.006)


def test_a_file_is_decoded_by_the_method_that_is_called_on_it(tmp_path):
    path = tmp_path / "images.py"
    line = '        return Image.open(self.paths[index]).convert("RGB").resize((64, 64))'
    path.write_text(
        "from PIL import Image\n"
        "from torch.utils.data import Dataset\n\n\n"
        "class Images(Dataset):\n"
        f"    def __getitem__(self, index):\n{line}\n"
    )
    ends = line.index(".convert"), line.index(".resize"), len(line)
    calls = [(15, end, share) for end, share in zip(ends, (0.1, 0.7, 0.2), strict=True)]
    profile = document(path, {"7": {"data": (0.004, 90, calls)}})
    (found,) = joined([path], profile, Config(root=tmp_path))
    assert (found.spot.id, found.seconds) == ("heavy_getitem", pytest.approx(0.004))


def test_a_pattern_stands_once_for_a_line(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        "import torch\n"
        "from torch.utils.data import DataLoader\n\n"
        "loader = DataLoader(train_set, num_workers=2)\n"
        "for x, y in loader:\n"
        "    x, y = x.cuda(), y.cuda()\n"
        "    model(x).sum().backward()\n"
        "    optimizer.step()\n"
    )
    found = joined([path], document(path, {"6": {"copy": (0.002, 9)}}), Config(root=tmp_path))
    copies = [c for c in found if c.spot.id == "pageable_copy"]
    assert [(c.spot.line, c.seconds) for c in copies] == [(6, 0.002)]


def test_one_or_two_samples_are_no_measurement(script):
    past = Past(document(script, {"10": {"other": (0.005, 2)}}))
    assert not past.cost(spot(script, 10)).worth


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("import torch\n", "import os\nimport torch\n", 11),
        ("        optimizer.step()\n", "", 9),
        ("zero_grad()", "zero_grad(set_to_none=True)", 10),
    ],
)
def test_a_line_that_moved_keeps_its_cost(script, old, new, line):
    remedy = Remedy("host_sync", "", ("other",), "train.py:10", 2.0, 0.5)
    own = Finding("reading", "train.py:10", "", 0.5, 2.0, (remedy,))
    past = document(script, {"10": {"other": (0.005, 20)}}, [own])
    script.write_text(SCRIPT.replace(old, new))
    found = Past(past).cost(spot(script, line))
    assert (found.seconds, found.stale, found.confirmed) == (0.005, False, True)
    assert found.spot.line == line


def test_a_line_that_changed_is_stale(script):
    past = document(script, {"10": {"other": (0.005, 20)}, "7": {"forward": (0.005, 20)}})
    script.write_text(SCRIPT.replace("print(loss.item())", "print(float(loss.item()))"))
    for changed in (spot(script, 10), spot(script, 7, end=10)):
        found = Past(past).cost(changed)
        assert found.stale
        assert not found.worth
        assert not found.confirmed


def test_a_line_put_between_the_lines_of_a_spot_makes_it_stale(script):
    past = document(script, {"7": {"forward": (0.005, 20)}})
    script.write_text(
        SCRIPT.replace("        loss.backward()", "        y = y\n        loss.backward()")
    )
    assert Past(past).cost(spot(script, 7, end=9)).stale
    assert not Past(past).cost(spot(script, 7)).stale


def test_a_file_that_changed_during_the_profile_is_stale(script):
    past = document(script, {"10": {"other": (0.005, 20)}})
    past["files"][str(script)] |= {"digest": "", "line_digests": []}
    assert Past(past).cost(spot(script, 10)).stale


def test_a_file_the_profile_did_not_meet_is_not_stale(script, tmp_path):
    other = tmp_path / "other.py"
    other.write_text("import torch\n")
    assert not Past(document(script, {})).cost(spot(other, 1)).stale


def test_a_hint_is_confirmed_where_the_profile_proposes_its_technique(script):
    remedy = Remedy("loader_workers", "", ("data",), "train.py:5", 2.0, 0.5)
    own = Finding("waiting", "train.py:5", "", 0.5, 2.0, (remedy,))
    past = Past(document(script, {}, [own]))
    assert past.cost(spot(script, 5, technique="loader_workers", hint=True)).confirmed
    assert past.cost(spot(script, 4, end=9, technique="loader_workers", hint=True)).confirmed
    assert not past.cost(spot(script, 9, technique="loader_workers", hint=True)).confirmed
    assert not past.cost(spot(script, 5, technique="host_sync", hint=True)).confirmed


def test_what_is_confirmed_has_the_cost_of_the_problem_that_confirms_it(script):
    remedy = Remedy("loader_workers", "", ("data",), "train.py:5", 2.0, 0.5)
    own = Finding("waiting", "train.py:5", "", 0.5, 2.0, (remedy,))
    hint = spot(script, 5, technique="loader_workers", hint=True)
    assert Past(document(script, {}, [own])).cost(hint).cost == "7.1 ms of 14.2 ms a step"
    unpriced = Past(document(script, {}, [replace(own, share=0.0)])).cost(hint)
    assert (unpriced.confirmed, unpriced.cost) == (True, "cost not measured")
    option = Past(document(script, {}, [replace(own, problem=False)])).cost(hint)
    assert (option.confirmed, option.cost) == (False, ""), "nobody knows whether it costs anything"


def test_the_cause_of_a_cost_that_is_measured_elsewhere_costs_what_its_finding_does(script):
    remedy = Remedy("dynamic_padding", "", ("forward",), "train.py:7", 2.0, 0.5)
    own = Finding("padding", "train.py:7", "", 0.5, 2.0, (remedy,))
    cause = spot(script, 1, technique="dynamic_padding", hint=True, elsewhere=True)
    cost = Past(document(script, {}, [own])).cost(cause)
    assert cost.confirmed
    assert cost.seconds == pytest.approx(0.0071)
    assert not Past(document(script, {})).cost(cause).confirmed
    apart = replace(cause, path=script.with_name("apart.py"))
    apart.path.write_text("")
    assert not Past(document(script, {}, [own])).cost(apart).confirmed
    known = document(script, {}, [own]) | {"places": {"loader": "apart.py:1"}}
    assert Past(known).cost(apart).confirmed


@pytest.mark.parametrize("broken", [{}, {"step": 1}, {"step": None, "files": {}}, []])
def test_what_is_no_profile_is_said(broken):
    with pytest.raises(UsageError, match="not a profile"):
        Past(broken)


def test_joined_keeps_findings_and_confirmed_hints_alone(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        "from torch.utils.data import DataLoader\n\n"
        "slow = DataLoader(list(range(9)), batch_size=3)\n"
        "other = DataLoader(list(range(9)), batch_size=3)\n"
    )
    lines = {"3": {"data": (0.007, 50)}, "4": {"data": (0.0001, 1)}}
    config = Config(root=tmp_path)
    kept = joined([path], document(path, lines), config)
    assert [(c.spot.line, c.spot.technique) for c in kept] == [(3, "loader_workers")]
    wide = joined([path], document(path, lines), Config(root=tmp_path, hints=True))
    assert [c.spot.line for c in wide] == [3, 4]


def test_what_costs_a_measured_part_of_its_lines_costs_at_most_that(script):
    known = document(script, {"8": {"backward": (0.004, 40)}})
    reduced = spot(script, 8, phases=("backward",), part_of="ddp_reducing")
    vague = Past(known).cost(reduced)
    assert (vague.vague, vague.cost) == (True, "part of 4.0 ms of 14.2 ms a step")
    known["facts"]["ddp_reducing"] = 0.25
    cost = Past(known).cost(reduced)
    assert (cost.vague, cost.cost) == (False, "at most 1.0 ms of 14.2 ms a step")
    assert cost.by_phase == (("backward", pytest.approx(0.001)),)
