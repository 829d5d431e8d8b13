import linecache
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap.core.protocol import InputStatistics, ProfilePayload, ShownWarning, decode
from hotlap.profile.join import Costed
from hotlap.profile.merge import merged
from hotlap.profile.sights import raw, rollout, sights
from hotlap.profile.torch_warnings import KNOWN, known
from hotlap.source.config import read_config
from hotlap.source.fixes import fixes

SHOWN = {
    "tensor_of_arrays": "Creating a tensor from a list of numpy.ndarrays is extremely slow. Please",
    "tensor_of_tensor": "To copy construct from a tensor, it is recommended to use sourceTensor",
    "anomaly_on": "Anomaly Detection has been enabled. This mode will increase the runtime",
    "too_many_workers": "This DataLoader will create 64 worker processes in total. Our suggested",
    "pinned_for_nobody": "'pin_memory' argument is set as true but no accelerator is found, then",
    "schedule_before_step": "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In",
    "old_amp": "`torch.cuda.amp.autocast(args...)` is deprecated. Please use `torch.amp.autocast",
    "tf32_off": "TensorFloat32 tensor cores for float32 matrix multiplication available but not "
    "enabled. Consider",
    "rnn_weights_apart": "RNN module weights are not part of single contiguous chunk of memory. ",
    "unused_not_found": "find_unused_parameters=True was specified in DDP constructor, but did not "
    "find any unused parameters",
    "grad_strides": "Grad strides do not match bucket view strides. This may indicate",
    "slow_attention": "Memory efficient kernel not used because: (Triggered internally",
    "data_parallel": "Was asked to gather along dimension 0, but all input tensors were scalars;",
    "read_only_array": "The given NumPy array is not writable, and PyTorch does not support",
}


def payload(**more):
    seen = {"step": {"mean": 0.0}, "phases": {}, "places": {"model": "train.py:1"},
            "facts": {"cuda": False}, **more}  # fmt: skip
    return decode(ProfilePayload, seen)


def test_dataparallel_is_told_with_what_it_cost():
    parts = {"scatter": 1e-3, "replicate": 4e-3, "parallel_apply": 0.03, "gather": 1e-3}
    seen = payload(spread=parts, step={"mean": 0.06}, facts={"cuda": False, "data_parallel": True})
    (spot,) = sights(seen, Path("/here"))
    assert spot.technique == "ddp_not_dp"
    assert spot.line == 1
    assert "scatter 1 ms, replicate 4 ms, gather 1 ms; together 10% of a step" in spot.says
    (silent,) = sights(replace(seen, spread={}), Path("/here"))
    assert "measured" not in silent.says
    assert not sights(payload(spread={}, step={"mean": 0.06}), Path("/here"))


def test_work_that_is_the_same_at_every_step_is_a_spot_with_its_lines(tmp_path):
    (tmp_path / "train.py").write_text("import torch\n" * 5)
    path = str(tmp_path / "train.py")
    rows = [
        {"path": "train.py", "line": 3, "since": 2, "end_line": 3, "seconds": 0.012},
        {"path": path, "line": 5, "since": 5, "end_line": 5, "seconds": 0.01, "in_part": True},
    ]
    rows[0]["confirmed"] = True
    whole, part = sights(payload(invariants=rows), tmp_path)
    assert (whole.technique, whole.place) == ("loop_invariants", f"{path}:3:1")
    assert whole.says.endswith("(lines 2 to 3)")
    assert part.says.endswith("(a part of the line, seen in three steps in a row)")
    assert (whole.since, whole.end_line, whole.seconds) == (2, 3, 0.012)
    assert not whole.phases
    for step, seconds in ((0.1, 0.036), (0.5, 0.012)):
        rows[0]["step"] = step  # the timed steps may be longer, and the watched one is
        whole, _ = sights(payload(invariants=rows, step={"mean": 0.3}), tmp_path)
        assert whole.seconds == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("env.step(action)", True),
        ("self.train_envs[0].step(a)", True),
        ("optimizer.step()", False),
        ("inventory.step()", False),
    ],
)
def test_an_environment_is_named_where_stepping_it_takes_much_of_a_step(tmp_path, call, named):
    path = tmp_path / "train.py"
    path.write_text(f"seen = {call}\n")
    linecache.checkcache(str(path))

    def spots(share):
        sampled = {str(path): {1: {"loss": (share, 50, [(7, 7 + len(call), 0.5)])}}}
        phases = {"forward": {"mean": 0.01}}
        return sights(payload(sampled=sampled, phases=phases, step={"mean": 0.02}), tmp_path)

    assert [(s.id, s.line, s.column) for s in spots(0.5)] == (
        [("environment_step", 1, 8)] if named else []
    )
    assert spots(0.3) == []


def test_what_no_technique_cures_is_not_written_by_lint(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("seen = env.step(action)\n")
    linecache.checkcache(str(path))
    sampled = {str(path): {1: {"loss": (0.5, 50, [(7, 23, 0.5)])}}}
    phases = {"forward": {"mean": 0.01}}
    seen = sights(payload(sampled=sampled, phases=phases, step={"mean": 0.02}), tmp_path)
    assert seen
    assert not fixes(seen, read_config(tmp_path)).changed


@pytest.mark.parametrize("around", ["def act(self, a):", "def step(self, a):"])
def test_an_environment_around_another_is_counted_where_it_is_stepped_itself(tmp_path, around):
    path = tmp_path / "train.py"
    path.write_text(f"class Scaled:\n    {around}\n        return self.env.step(a)\n")
    linecache.checkcache(str(path))
    sampled = {str(path): {3: {"other": (1.0, 50, [(15, 31, 1.0)])}}}
    seen = payload(sampled=sampled, phases={"other": {"mean": 0.01}}, step={"mean": 0.02})
    assert [spot.line for spot in sights(seen, tmp_path)] == ([3] if "act" in around else [])
    said = rollout(seen, tmp_path)
    assert [note.partition(" ")[0] for note in said] == (["train.py:3"] if "act" in around else [])


def test_every_known_warning_is_known_by_its_text():
    assert {entry.id for entry in KNOWN} == set(SHOWN)
    for name, text in SHOWN.items():
        assert [e.id for e, _ in known([ShownWarning(text, "a.py:1")])] == [name]


@pytest.mark.parametrize("asks", [True, False])
def test_pinning_is_named_where_the_file_asks_for_it_not_where_a_trainer_does(tmp_path, asks):
    text = "DataLoader(data, pin_memory=True)" if asks else "trainer.train()"
    (tmp_path / "train.py").write_text(text)
    shown = [{"text": SHOWN["pinned_for_nobody"], "place": f"{tmp_path}/train.py:1"}]
    assert [spot.id for spot in sights(payload(warnings=shown), tmp_path)] == [
        "pinned_for_nobody"
    ] * asks


def test_other_warnings_are_left_alone():
    assert list(known([ShownWarning("overflow encountered in exp", "a.py:1")])) == []


@pytest.mark.parametrize(
    ("least", "most", "whole", "is_raw"),
    [
        (0.0, 255.0, True, True),
        (3.0, 251.0, True, True),
        (0.0, 255.0, False, False),  # pixels that were interpolated, or noise as large
        (-3.1, 3.2, False, False),
        (0.0, 1.0, True, False),  # binary features
        (0.0, 9.0, True, False),  # counts
        (0.0, 0.02, False, False),  # row-normalised features
        (-160.0, 158.0, False, False),  # the noisiest inputs of a diffusion model
        (0.0, 5000.0, True, False),
    ],
)
def test_raw_inputs(least, most, whole, is_raw):
    assert bool(raw(InputStatistics(least, most, whole))) is is_raw
    assert raw(None) == ""


def test_sights_become_spots_with_their_line(tmp_path):
    (tmp_path / "train.py").write_text("out = model(x)\nfor x in y:\n    total += out\n")
    holder = {"kind": "global", "name": "total", "path": "train.py", "function": 0}
    bias = {"layer": "0", "kind": "Conv2d", "place": "train.py:1", "norm": "1"}
    seen = payload(
        retained=[holder],
        modules={"bias_before_norm": [bias], "input": {"least": 0.0, "most": 255.0, "whole": 1.0}},
        warnings=[{"text": SHOWN["anomaly_on"], "place": "train.py:2"}],
    )
    found = {(spot.technique, spot.line) for spot in sights(seen, tmp_path)}
    assert found == {
        ("retained_graph", 3),
        ("bias_before_norm", 1),
        ("input_normalised", 1),
        ("debug_off", 2),
    }


@pytest.mark.parametrize(("size", "words"), [(3 * 2**20, "3.0 MiB"), (90_000, "87.9 KiB")])
def test_how_much_memory_grows_is_said(tmp_path, size, words):
    (tmp_path / "train.py").write_text("for x in y:\n    kept.append(out)\n")
    holder = {"kind": "global", "name": "kept", "path": "train.py", "function": 0, "bytes": size}
    (spot,) = sights(payload(retained=[holder]), tmp_path)
    assert f"(kept: {words} more each step)" in spot.says


@pytest.mark.parametrize("freed", [True, False])
def test_a_graph_without_activations_is_no_problem(tmp_path, freed):
    (tmp_path / "train.py").write_text("for x in y:\n    total += loss\n")
    holder = {"kind": "global", "name": "total", "path": "train.py", "function": 0, "freed": freed}
    (spot,) = sights(payload(retained=[holder]), tmp_path)
    (finding,) = merged([], [Costed(spot)], tmp_path).findings
    assert ("freed the activations" in spot.says) is freed
    assert finding.problem is not freed


def test_odd_sizes_matter_on_a_gpu_alone(tmp_path):
    layer = {"layer": "0", "kind": "Linear", "place": "train.py:1", "sizes": {"out_features": 1001}}
    seen = payload(modules={"odd_sizes": [layer]})
    assert sights(seen, tmp_path) == []
    (spot,) = sights(replace(seen, facts={"cuda": True}), tmp_path)
    assert spot.technique == "dims_multiple_of_8"
    assert "out_features=1001" in spot.says


def test_an_odd_batch_matters_on_a_gpu_alone(tmp_path):
    places = {"loader": "train.py:4"}
    seen = payload(places=places, facts={"cuda": True, "batch_size": 30})
    (spot,) = sights(seen, tmp_path)
    assert (spot.id, spot.line) == ("odd_batch", 4)
    assert sights(payload(places=places, facts={"cuda": True, "batch_size": 32}), tmp_path) == []
    assert sights(payload(places=places, facts={"cuda": False, "batch_size": 30}), tmp_path) == []


def test_nothing_seen_nothing_said(tmp_path):
    assert sights(payload(), tmp_path) == []
