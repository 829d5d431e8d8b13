"""Programs that do not train: what a profile and a race make of them."""

import sys
from pathlib import Path

import pytest

from hotlap.core.machine import detect
from hotlap.core.spec import Mode
from hotlap.core.technique import Numerics
from hotlap.profile.collect import Circumstances, profile_from
from hotlap.profile.look import Bounds, look
from hotlap.trial.launch import Setting
from hotlap.trial.parity import compare_outputs
from hotlap.trial.race import race
from hotlap.trial.side import Side
from hotlap.trial.stopping import StoppingRules

SCRIPTS = Path(__file__).parent.parent / "scripts" / "inference"
QUICK = ("generate",)
OTHERS = ("classify_images", "classify_text", "embed", "segment", "pipeline")
OF_TRAINING = {"backward", "optimizer", "evaluation", "evaluation_data"}
TRAINING_WORDS = ("gradient", "optimizer", "backward", "loss", "train", "epoch")


def setting(tmp_path, mode, name, **more):
    words = (sys.executable, str(SCRIPTS / f"{name}.py"))
    return Setting(
        words, mode, seed=0, scratch=tmp_path / "scratch", output=tmp_path / "log", **more
    )


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)]
)
def test_a_profile_of_a_program_that_does_not_train(name, tmp_path):
    if name == "pipeline":
        pytest.importorskip("transformers")
    bounds = Bounds(steps=20, seconds=10, dataset=False)
    payload = look(setting(tmp_path, Mode.PROFILE, name), bounds).payload
    assert payload.facts["inference"]
    assert not OF_TRAINING & set(payload.phases)
    assert payload.phases["forward"].mean > 0
    assert payload.step.p95 >= payload.step.p50 > 0
    found = profile_from(payload, detect(), None, Circumstances(0.0, SCRIPTS))
    words = " ".join(
        [one.what for one in found.findings]
        + [remedy.says for one in found.findings for remedy in one.remedies]
    ).lower()
    assert not [word for word in TRAINING_WORDS if word in words]
    heads = [one.what for one in found.findings if not one.problem]
    assert len(heads) == len(set(heads))
    if name == "generate":
        assert set(payload.calls) == {"prefill", "decode without a KV cache"}
    if name == "embed":
        assert payload.phases["data"].mean > 0.008  # eight samples that sleep


@pytest.mark.slow
def test_an_evaluation_before_the_training_is_not_taken_for_the_work(tmp_path):
    bounds = Bounds(steps=20, seconds=10, dataset=False)
    name = "evaluate_then_train"
    payload = look(setting(tmp_path, Mode.PROFILE, name), bounds).payload
    assert not payload.facts.get("inference")
    assert payload.program == str(SCRIPTS / f"{name}.py")
    assert "optimizer" in payload.phases


def test_gradients_after_root_calls_that_counted_start_it_again_as_a_training(tmp_path):
    side = Side(setting(tmp_path, Mode.RACE, "evaluate_then_train", options={"inference": True}))
    try:
        side.ready()
        while side.setting.options["inference"]:
            side.block(8)
        side.block(8)
        assert side.launches > 1
        assert len(side.losses) > 0
    finally:
        side.close()


def test_a_race_of_programs_that_do_not_train(tmp_path):
    a, b = (Side(setting(tmp_path, Mode.RACE, "classify_text")) for _ in range(2))
    try:
        found = race(a, b, StoppingRules(seconds=3, max_pairs=3))
        assert found.estimate.pairs >= 3
        assert not a.losses
        assert compare_outputs(a.outputs, b.outputs, Numerics.EXACT).kept
    finally:
        a.close()
        b.close()


@pytest.mark.slow
def test_a_program_whose_source_mentions_training_is_started_again(tmp_path):
    script = tmp_path / "served.py"
    text = (SCRIPTS / "classify_images.py").read_text()
    script.write_text(text + "\n\ndef unused(loss):\n    loss.backward()\n")
    bounds = Bounds(steps=20, seconds=10, dataset=False)
    words = (sys.executable, str(script))
    run = Setting(words, Mode.PROFILE, scratch=tmp_path / "scratch", output=tmp_path / "log")
    assert look(run, bounds).payload.facts["inference"]
