"""A payload of the probe, as small as it can be, made into a profile."""

import re
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap.core.machine import Machine
from hotlap.core.protocol import ProfilePayload, decode
from hotlap.core.registry import techniques
from hotlap.profile import collect
from hotlap.profile.advice import ADVICE, EVALUATION, SHARED_EVALUATION, addressed
from hotlap.profile.collect import Circumstances, profile_from
from hotlap.profile.findings import free, seen_in
from hotlap.profile.join import Past
from hotlap.profile.model import WAS_INTERRUPTED, Finding, Remedy
from hotlap.profile.torch_warnings import KNOWN
from hotlap.trial.command import EXECUTE, FIRST_CELL, THIS_CELL

MACHINE = Machine("cpu", 4, 2, 2**33, (), "Linux", "6", "x86_64")
SCRIPT = """\
import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(list(range(9)), batch_size=3):
    optimizer.zero_grad()
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""


def payload(path, lines, **more):
    mean = {"data": 0.001, "forward": 0.004, "backward": 0.003, "other": 0.002}
    seen = {
        "step": {"steps": 100, "mean": 0.01, "p10": 0.009, "p90": 0.011},
        "device": "cpu",
        "phases": {name: {"mean": s, "p10": s, "p90": s} for name, s in mean.items()},
        "cpu": 0.01,
        "samples": 32.0,
        "tokens": 0.0,
        "lines": {},
        "sampled": {str(path): lines},
        "facts": {"cuda": False, "model": False},
        "places": {},
        "memory": {"by_phase": {}, "by_owner": {}, "peak": {"cuda": 0, "resident": 2**20}},
        "flops": None,
        **more,
    }
    return decode(ProfilePayload, seen)


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def made(script, lines, began=None, **more):
    run = Circumstances(began or time.time() + 1, script.parent)
    return profile_from(payload(script, lines, **more), MACHINE, None, run)


@pytest.mark.parametrize(
    ("line", "operators", "facts", "share"),
    [
        ("8", {}, {}, 0.36),
        ("8", {"8": [1, 1e-9, 0.0]}, {}, 0.0),
        ("8", {}, {"compiled": True}, 0.0),
        ("9", {}, {}, 0.0),  # it waits for other ranks
    ],
)
def test_work_outside_of_torch_in_the_forward_pass(tmp_path, line, operators, facts, share):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace("loss.backward()", "dist.all_reduce(loss)"))
    known = {str(script): {"10": [5, 0.003, 0.0], **operators}}
    facts = {"cuda": False, "model": False, **facts}
    lines = {line: {"forward": (0.9, 60, [])}}
    found = made(script, lines, operators_on=known, facts=facts).findings
    shown = [f for f in found if f.remedies[0].id == "outside_of_torch"]
    assert [(f.place, f.problem) for f in shown] == [("train.py:8", True)] * bool(share)
    assert [f.share for f in shown] == [pytest.approx(share)] * bool(share)


def test_lines_of_a_function_count_together_and_those_that_call_it_do_not(tmp_path):
    script = tmp_path / "train.py"
    source = """
    def filters(n):
        rows = []
        for k in range(n):
            rows.append(k ** 0.5)
        return rows

    def loss(x):
        return (torch.tensor(filters(9)) - x).sum()
    """
    script.write_text(textwrap.dedent(source))
    spent = {4: 0.1, 5: 0.3, 9: 0.9}
    lines = {str(line): {"forward": (share, 60, [])} for line, share in spent.items()}
    found = made(script, lines, operators_on={str(script): {"9": [3, 0.001, 0.0]}}).findings
    (one,) = [f for f in found if f.remedies[0].id == "outside_of_torch"]
    assert (one.place, one.share) == ("train.py:5", pytest.approx(0.16))


def test_a_call_of_a_function_that_runs_operators_is_not_called_work_outside_of_torch(tmp_path):
    script = tmp_path / "train.py"
    source = """
    def epoch(model, x):
        return model(x).sum()

    epoch(model, first)
    loss = trainer.epoch(model, second)
    rows = [k ** 0.5 for k in range(9)]
    """
    script.write_text(textwrap.dedent(source))
    lines = {str(line): {"forward": (0.4, 60, [])} for line in (6, 7)}
    ran = {str(script): {"3": [3, 0.001, 0.0], "5": [3, 0.001, 0.0]}}
    found = made(script, lines, operators_on=ran).findings
    assert [f.place for f in found if f.remedies[0].id == "outside_of_torch"] == ["train.py:7"]


def test_operators_that_are_not_known_are_not_said_to_be_none(script):
    found = made(script, {"8": {"forward": (0.9, 60, [])}}).findings
    assert not [f for f in found if f.remedies[0].id == "outside_of_torch"]


@pytest.mark.parametrize(
    ("differentiated", "share", "seconds", "behind"),
    [
        (False, 0.9, 0.0024, 0.5), (True, 0.9, 0.0042, 0.0), (True, 0.1, 0.0007, 0.0),
        (True, 0.1, 0.0022, 0.8),  # of the backward pass three quarters of its own part
    ],
)  # fmt: skip
def test_repeated_work_costs_all_but_its_first_time(script, differentiated, share, seconds, behind):
    repeat = {
        "path": str(script), "line": 8, "times": 4, "part": 0.75, "share": share,
        "differentiated": differentiated,
    }  # fmt: skip
    on = {str(script): {"8": [40, 0.001, behind]}}
    sampled = {"8": {"forward": (0.8, 60, [])}}
    found = made(script, sampled, in_vain={"repeated_in_step": [repeat]}, operators_on=on).findings
    (one,) = [f for f in found if f.remedies[0].id == "repeated_in_step"]
    assert one.problem
    assert "(4 times)" in one.what
    assert one.share == pytest.approx(seconds / 0.01)


def test_pairs_that_are_summed_up_are_told_in_the_words_of_lint(script):
    script.write_text(SCRIPT.replace("print(loss.item())", "s = torch.mul(a, b).sum(2)"))
    pairs = {"path": str(script), "line": 11, "times": 64, "part": 0.9, "share": 0.4, "since": 10}
    found = made(script, {"11": {"forward": (0.8, 60, [])}}, pairs=[pairs]).findings
    (one,) = [f for f in found if f.remedies[0].id == "pairwise_matmul"]
    assert one.problem
    assert "for each pair and feature, and then summed up (64 times as many as go in)" in one.what
    assert one.place == "train.py:11"
    assert "torch.cdist" in one.remedies[0].says


def test_rows_that_nothing_uses_cost_their_operators_in_both_passes(script):
    unused = {
        "path": str(script), "line": 8, "used": 0.05, "share": 0.2, "picked_path": str(script),
        "picked_line": 9, "differentiated": True,
    }  # fmt: skip
    found = made(script, {"8": {"forward": (0.8, 60, [])}}, unused=[unused]).findings
    (one,) = [f for f in found if f.remedies[0].id == "unused_rows"]
    assert one.problem
    assert "only 5% of the rows computed here are used, picked at train.py:9" in one.what
    assert one.place == "train.py:8"
    sampled, on = {"8": {"forward": (0.8, 60, [])}}, {str(script): {"8": [40, 0.001, 0.9]}}
    called = made(script, sampled, unused=[unused], operators_on=on).findings
    (same,) = [f for f in called if f.remedies[0].id == "unused_rows"]
    assert same.share == one.share, "the backward pass of what the line calls is not its own"
    whole = made(script, {"8": {"forward": (0.8, 60, [])}}, unused=[unused | {"share": 0.4}])
    (twice,) = [f for f in whole.findings if f.remedies[0].id == "unused_rows"]
    assert twice.share == pytest.approx(2 * one.share)


@pytest.mark.parametrize(
    ("part", "said"), [(1.0, ""), (0.5, " (a part of the line's results, 50%")]
)
def test_results_that_nothing_uses_are_a_problem(script, part, said):
    row = {"path": str(script), "line": 8, "times": 0, "part": part, "share": 0.2}
    found = made(
        script, {"8": {"forward": (0.8, 60, [])}}, in_vain={"unused_results": [row]}
    ).findings
    (one,) = [f for f in found if f.remedies[0].id == "unused_results"]
    assert (one.problem, one.place) == (True, "train.py:8")
    assert one.what.startswith(f"nothing uses what is computed here{said}")


def test_a_product_with_a_factor_of_zeros_is_a_problem(script):
    row = {"path": str(script), "line": 8, "times": 640, "part": 1.0, "share": 0.2}
    found = made(
        script, {"8": {"forward": (0.8, 60, [])}}, in_vain={"sparse_product": [row]}
    ).findings
    (one,) = [f for f in found if f.remedies[0].id == "sparse_product"]
    assert (one.problem, one.place) == (True, "train.py:8")
    assert one.what.startswith("a factor of the matrix product here is zero except for 1 element")


def test_a_transform_of_a_slow_length_is_a_problem(script):
    row = {"path": str(script), "line": 8, "times": 32002, "part": 0.9, "share": 0.2}
    found = made(script, {"8": {"forward": (0.8, 60, [])}}, in_vain={"fft_length": [row]}).findings
    (one,) = [f for f in found if f.remedies[0].id == "fft_length"]
    assert one.problem
    assert one.what.startswith(
        "a Fourier transform of length 32,002 is slow: the length has the prime factor 16,001"
    )


def test_a_spot_that_costs_is_a_finding_with_its_figure(script):
    found = made(script, {"11": {"other": (0.95, 60, [])}})
    (finding,) = [f for f in found.findings if f.remedies[0].id == "host_sync"]
    assert finding.what.endswith("19% of a step, 1.9 ms")
    assert (finding.place, finding.text) == ("train.py:11", "print(loss.item())")
    assert found.files[str(script)].lines[11]["other"][0] == pytest.approx(0.0019)


@pytest.mark.parametrize(
    ("made_of", "told"), [("torch.zeros(3)", True), ("torch.tensor(x.tolist())", False)]
)
def test_only_what_is_not_made_of_data_is_the_same_at_every_step(script, made_of, told):
    script.write_text(SCRIPT.replace("print(loss.item())", f"mask = {made_of}.to('cuda')"))
    found = made(script, {"11": {"other": (0.95, 60, [])}})
    assert any("built anew at every step" in f.what for f in found.findings) is told


def test_what_only_a_gpu_could_pay_for_is_not_told_of_a_cpu(script):
    assert "host_sync" not in {f.remedies[0].id for f in made(script, {}).findings}


def test_a_hint_that_costs_nothing_is_dropped(script):
    names = {
        r.id for f in made(script, {"6": {"data": (0.05, 5, [])}}).findings for r in f.remedies
    }
    assert "loader_workers" not in names


@pytest.mark.parametrize("workers", [True, False])
def test_workers_are_advised_on_only_where_a_loader_has_them(script, workers):
    loader = "DataLoader(list(range(9)), batch_size=3, num_workers=int(input()))"
    script.write_text(re.sub(r"DataLoader\(.*?size=3\)", loader, SCRIPT))
    facts = {"cuda": False, "model": False, "loaders": True, "loader_workers": workers}
    found = made(script, {"6": {"data": (0.95, 60, [])}}, facts=facts)
    names = {remedy.id for finding in found.findings for remedy in finding.remedies}
    assert ("persistent_workers" in names) is workers


@pytest.mark.parametrize("watched", [True, False])
def test_functions_that_no_step_was_watched_for_are_not_said_to_be_called(script, watched):
    facts = {"cuda": False, "model": True, "calls_gelu": True}
    notes = {} if watched else {"operators": "the run was too short"}
    places = {"model": f"{script}:8"}
    found = made(script, {}, facts=facts, notes=notes, places=places)
    names = {remedy.id for finding in found.findings for remedy in finding.remedies}
    assert ("fused_gelu" in names) is watched


def test_a_file_that_changed_meanwhile_is_not_judged(script):
    found = made(script, {"11": {"other": (0.95, 60, [])}}, began=time.time() - 60)
    assert not [f for f in found.findings if f.pattern]
    assert any("train.py changed while it ran" in note for note in found.notes)


def test_a_rule_that_fails_costs_no_profile(script, monkeypatch):
    def fails(*_):
        raise RuntimeError("odd source")

    monkeypatch.setattr("hotlap.profile.collect.joined", fails)
    found = made(script, {"11": {"other": (0.95, 60, [])}})
    assert found.steps == 100
    assert any("odd source" in note for note in found.notes)


def test_files_that_are_gone_are_left_out(script):
    assert made(Path("/nowhere/train.py"), {}).files == {}


def test_what_was_not_measured_is_told_once_a_reason(script):
    found = made(script, {}, notes={"flops": "too short", "memory": "too short", "modules": "x"})
    assert found.notes == (
        "not measured: FLOPs, memory by owner: too short",
        "not measured: sizes and biases of layers: x",
    )


@pytest.mark.parametrize(("seconds", "costs"), [(0.0, False), (0.001, True)])
def test_what_cannot_cost_anything_here_is_no_problem(script, seconds, costs):
    """Something about the loader where steps wait for data, and where they do not."""
    phases = {"data": {"mean": seconds, "p10": 0.0, "p90": 0.0}}
    remedy = Remedy("any", "", ("data",), "train.py:6", 1.0, 0.0)
    fault = Finding("a fault of the loader", "train.py:6", "", 0.0, 1.0, (remedy,))
    assert free(fault, seen_in(payload(script, {}, phases=phases), {})) is not costs


def test_commands_in_remedies_are_the_programs_own_and_advice_is_by_hand(script):
    told = [
        Remedy("loader_workers", "`hotlap tune --only loader_workers CMD` finds how many", (), "",
               2.0, 0.1),
        Remedy("fused_attention", "call it", (), "", 2.0, 0.1),
    ]  # fmt: skip
    facts = {"loader_serial": True, "map_style": True}
    found = addressed(Finding("w", "", "", 0.1, 2.0, tuple(told)), facts, "python 'my t.py'")
    raced, advice = found.remedies
    assert raced.says == "the command below finds how many"
    assert raced.lines == ("hotlap tune --only loader_workers python 'my t.py'",)
    assert (raced.by_hand, advice.by_hand) == (False, True)
    without = addressed(found, {"map_style": True}, "").remedies[0]
    assert without.by_hand


ASLEEP = "`OMP_WAIT_POLICY=passive KMP_BLOCKTIME=0 CMD` lets them sleep"
IN_CELL = (FIRST_CELL, "%env OMP_WAIT_POLICY=passive", "%env KMP_BLOCKTIME=0")
MALLOC = "`hotlap race CMD -- env MALLOC_ARENA_MAX=2 CMD` measures it"


@pytest.mark.parametrize(
    ("words", "program", "lines"),
    [
        (ASLEEP, "python a.py", ("OMP_WAIT_POLICY=passive KMP_BLOCKTIME=0 python a.py",)),
        (ASLEEP, "a.ipynb",
         (*IN_CELL, "# or the whole notebook, in a shell",
          f"OMP_WAIT_POLICY=passive KMP_BLOCKTIME=0 {EXECUTE} a.ipynb")),
        (ASLEEP, THIS_CELL, IN_CELL),
        ("`hotlap tune --only loader_workers CMD`", "a.ipynb",
         ("hotlap tune --only loader_workers a.ipynb",)),
        ("`hotlap tune --only loader_workers CMD`", THIS_CELL,
         ("%%hotlap tune --only loader_workers",)),
        (MALLOC, "a.ipynb", ("hotlap race a.ipynb -- env MALLOC_ARENA_MAX=2 a.ipynb",)),
        (MALLOC, THIS_CELL, ("MALLOC_ARENA_MAX=2 jupyter lab",)),
    ],
)  # fmt: skip
def test_a_notebook_is_no_command_of_a_shell(words, program, lines):
    remedy = Remedy("sleeping_threads", words, (), "", 2.0, 0.1)
    found = addressed(Finding("w", "", "", 0.1, 2.0, (remedy,)), {}, program)
    assert found.remedies[0].lines == lines


def test_where_lint_and_the_probe_see_a_kept_graph_the_probe_says_how_much_it_is(script):
    script.write_text(f"kept = []\n{SCRIPT.replace('print(loss.item())', 'kept.append(model(x))')}")
    holder = {"kind": "global", "name": "kept", "path": "train.py", "function": 0}
    for retained, words in (
        ([], ""),
        ([{**holder, "bytes": 2**21}], "kept: 2.0 MiB more each step"),
    ):
        found = made(script, {}, retained=retained, places={"model": f"{script}:6"})
        (one,) = [f for f in found.findings if f.pattern == "graph_kept"]
        assert one.place == "train.py:12"
        assert words in one.what
        assert ("more each step" in one.what) is bool(retained)


def test_what_lint_can_write_is_not_by_hand(script):
    remedy = Remedy("no_grad_eval", "put it under no_grad", (), "t.py:3", 1.0, 0.0)
    seen = Finding("w", "t.py:3", "", 0.0, 1.0, (remedy,), pattern="eval_with_grad")
    fixing = {"no_grad_eval": "hotlap lint --fix t.py"}
    (found,) = addressed(seen, {}, "", fixing).remedies
    assert (found.by_hand, found.lines) == (False, ("hotlap lint --fix t.py",))
    (other,) = addressed(replace(seen, pattern=""), {}, "", fixing).remedies
    assert (other.by_hand, other.lines) == (True, ())


def test_no_remedy_names_a_command_that_cannot_be_pasted():
    """`hotlap tune` and `hotlap race` need the program: CMD, which a profile replaces."""
    told = [e.remedy for e in KNOWN]
    for record in techniques().values():
        told += [p.remedy for p in record.patterns]
        told += [record.symptom.says] if record.symptom else []
    told += [advice.symptom.says for advice in ADVICE]
    bare = [
        words for words in told if re.search(r"`hotlap (tune|race|profile)\b(?![^`]*CMD)", words)
    ]
    assert bare == []


def test_findings_go_by_the_usual_time_and_the_table_by_the_mean(script):
    phases = {
        "forward": {"mean": 0.004, "p10": 0.004, "p90": 0.004, "usual": 0.004},
        "optimizer": {"mean": 0.006, "p10": 0.0005, "p90": 0.0015, "usual": 0.001},
        "data": {"mean": 0.005, "p10": 0.0, "p90": 0.001, "usual": 0.0005},
    }
    lines = {"10": {"optimizer": (0.5, 60, [])}}
    found = made(script, lines, phases=phases, step={"steps": 100, "mean": 0.015})
    assert {p.name: round(p.share, 3) for p in found.phases}["optimizer"] == 0.4
    seen = seen_in(payload(script, lines, phases=phases, step={"mean": 0.015}), {})
    assert seen.step == pytest.approx(0.010)
    assert seen.share(["optimizer"]) == pytest.approx(0.1)
    assert seen.share(["data"]) == pytest.approx(0.5), "a loader's stalls are real"
    assert found.files[str(script)].lines[10]["optimizer"][0] == pytest.approx(0.0005)
    past = Past(found.to_json() | {"findings": []})
    assert past._step == pytest.approx(0.010)


@pytest.mark.parametrize("contended", [True, False])
def test_threads_that_spin_for_a_core_are_a_problem_with_a_command(script, contended):
    facts = {
        "cuda": False, "model": True, "threads": 2, "threads_waited": 0.74,
        "contended_threads": contended,
    }  # fmt: skip
    run = Circumstances(time.time() + 1, script.parent, command="python train.py --lr 1")
    seen = payload(script, {}, facts=facts, places={"model": f"{script}:4"})
    found = profile_from(seen, MACHINE, None, run)
    mine = [(f, r) for f in found.findings for r in f.remedies if r.id == "sleeping_threads"]
    assert any("2 threads, which waited for a core 74%" in n for n in found.notes) is contended
    assert len(mine) == contended
    for finding, remedy in mine:
        assert finding.problem
        assert "CMD" not in finding.what
        line = "OMP_WAIT_POLICY=passive KMP_BLOCKTIME=0 python train.py --lr 1"
        assert remedy.lines == (line,)


@pytest.mark.parametrize(
    ("activations", "free", "shown"),
    [(2**20, 2**33, True), (2**20, 2**24, False), (2**30, 2**33, False), (0, 2**33, False)],
)
def test_a_checkpoint_is_a_problem_where_memory_is_free(
    tmp_path, monkeypatch, activations, free, shown
):
    monkeypatch.setattr(collect, "available_memory", lambda: free)
    script = tmp_path / "train.py"
    called = "checkpoint(model, x, use_reentrant=False).sum()"
    head = "from torch.utils.checkpoint import checkpoint\n"
    script.write_text(head + SCRIPT.replace("model(x).sum()", called))
    memory = {"by_owner": {"activations": activations}, "peak": {"resident": 2**20}}
    found = made(script, {"9": {"forward": (0.9, 60, [])}}, memory=memory).problems
    mine = [one.place for one in found if one.pattern == "recomputed_forward"]
    assert mine == ["train.py:9"] * shown


def test_a_program_that_was_interrupted_did_not_end_too_early(script):
    seen = payload(script, {}, ended="exit", facts={"cuda": False, "model": True}, steps=3)
    began = time.time() + 1
    whole, broken = (
        profile_from(seen, MACHINE, None, Circumstances(began, script.parent, partial))
        for partial in ("", WAS_INTERRUPTED)
    )
    assert (whole.ended_after, whole.too_short) == (3, True)
    assert (broken.ended_after, broken.too_short) == (None, False)


@pytest.mark.parametrize("several_ranks", [True, False])
def test_an_evaluation_of_several_ranks_is_to_be_shared(script, several_ranks):
    remedy = Remedy(EVALUATION, "less often", ("evaluation",), "t.py:9", 2.0, 0.3)
    finding = Finding("evaluation", "t.py:9", "", 0.5, 2.0, (remedy,))
    (found,) = addressed(finding, {"several_ranks": several_ranks}, "python t.py").remedies
    assert (SHARED_EVALUATION in found.notes) == several_ranks


LOOPS = """
def imagine(h):
    states = []
    for _ in range(15):
        h = cell(h)
        states.append(h)
    return torch.stack(states)

def behaviour(hs):
    total = 0.0
    for t in range(hs.shape[1]):
        dream = imagine(hs[:, t])
        total = total + dream.mean()
    return total

for batch in batches:
    loss = behaviour(encode(batch))
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("rounds", "behind", "forward", "places"),
    [
        (1500, 0.4, 0.004, ["train.py:5", "train.py:12"]),
        (300, 0.4, 0.004, []),  # few
        (1500, 0.01, 0.0005, []),  # short
        (1500, 0.4, 1.0, []),  # large
    ],
)
def test_many_small_operators_in_loops_that_do_not_train(tmp_path, rounds, behind, forward, places):
    script = tmp_path / "train.py"
    script.write_text(LOOPS)
    lines = {
        "5": {"forward": (0.6, 60, [])},
        "12": {"forward": (0.6, 60, [])},
        "13": {"forward": (0.02, 60, [])},
        "17": {"forward": (0.9, 60, [])},
        "18": {"backward": (1.0, 60, [])},
    }
    ran = {"5": [rounds, 1e-3, behind], "12": [rounds + 9, 1e-3, behind], "17": [9999, 2e-3, 0.9]}
    means = {"forward": forward, "backward": 0.003}
    phases = {name: {"mean": s, "p10": s, "p90": s} for name, s in means.items()}
    found = made(script, lines, operators_on={str(script): ran}, phases=phases).findings
    loops = [f for f in found if f.remedies[0].id == "small_operators"]
    assert [[f.place, *f.also] for f in loops] == ([places] if places else [])
    assert all(f.problem and f"{rounds:,} small operators" in f.what for f in loops)


def test_many_small_operators_between_the_phases_are_one_finding(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(LOOPS)
    ran = {"5": [1500, 1e-3, 0.0]}
    phases = {
        name: {"mean": s, "p10": s, "p90": s}
        for name, s in {"other": 0.005, "forward": 0.003}.items()
    }
    lines = {"5": {"other": (0.9, 60, [])}}
    found = made(script, lines, operators_on={str(script): ran}, phases=phases).findings
    (one,) = [f for f in found if f.place.endswith("train.py:5")]
    assert "1,500 small operators" in one.what
    assert one.remedies[0].phases == ("other",)


@pytest.mark.parametrize(
    ("source", "technique", "shown"),
    [
        ("loss = F.cross_entropy(model(x).softmax(-1), y)", "fused_cross_entropy", True),
        ('y = torch.einsum("ij,jk,kl->il", a, b, c)', "einsum_order", False),
    ],
)
def test_a_technique_that_would_change_nothing_takes_its_hints_along_but_no_faults(
    tmp_path, source, technique, shown
):
    script = tmp_path / "train.py"
    script.write_text(f"import torch\nimport torch.nn.functional as F\n\n{source}\n")
    facts = {"cuda": False, "model": False, "unchanged": {technique: "no call would change"}}
    found = made(script, {"4": {"forward": (0.9, 60, [])}}, facts=facts).findings
    assert (technique in {f.remedies[0].id for f in found}) == shown
