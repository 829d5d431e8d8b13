"""Small batches whose gradients are accumulated, where one large batch would fit."""

import pytest

from hotlap.profile.micro_batches import micro_batches
from hotlap.profile.model import Headroom, Phase, Profile

GIB = 2**30


def profile(use=0.04, rows=32, passes=32, activations=2**20, **more):
    phases = (
        Phase("forward", 0.3, 0.3, 0.3, 0.3),
        Phase("backward", 0.6, 0.6, 0.6, 0.6),
        Phase("optimizer", 0.1, 0.1, 0.1, 0.1),
    )
    return Profile(
        steps=30,
        step=1.0,
        step_p10=1.0,
        step_p90=1.0,
        device="cpu",
        phases=phases,
        lines={},
        samples_per_second=float(rows),
        tokens_per_second=0.0,
        memory_by_phase={},
        memory_by_owner={"activations": activations},
        peak_memory=GIB,
        headroom=Headroom(1e9, use * 1e11, "float32", 1e11),
        findings=(),
        facts={"each_sample_once": True, **more},
        places={"loader": "train.py:9"},
        backwards=passes,
    )


@pytest.mark.parametrize(
    ("trainer", "how"),
    [
        ("", "one batch of 32 (without accumulation)"),
        ("transformers", "(per_device_train_batch_size=32, gradient_accumulation_steps=1)"),
        ("lightning", "accumulate_grad_batches=1"),
        ("accelerate", "gradient_accumulation_steps=1"),
    ],
)
def test_small_batches_that_fit_together_are_a_problem(trainer, how):
    (found,) = micro_batches(profile(trainer=trainer), GIB)
    assert found.problem
    assert (
        found.what
        == "32 passes through the model a step, of 1 sample each: 90% of a step, 900.0 ms"
    )
    (remedy,) = found.remedies
    assert remedy.by_hand
    assert how in remedy.says
    assert "4% of the measured peak" in remedy.says
    assert "about 31.0 MiB more memory, of 1.0 GiB that are free" in remedy.says


@pytest.mark.parametrize(
    "found",
    [
        profile(passes=2),  # two models, or two losses
        profile(each_sample_once=False),  # the same samples in each pass, or no loader's
        profile(use=0.5),  # busy already
        profile(rows=16 * 32),  # enough work at once
        profile(activations=20 * 2**20),  # does not fit
        profile(activations=0),  # not known
    ],
)
def test_what_may_have_its_reason_is_left_alone(found):
    assert not micro_batches(found, GIB)


def test_of_a_machine_without_a_measured_peak_nothing_is_said():
    bare = profile()
    object.__setattr__(bare, "headroom", Headroom(1e9, 1e9, "float32", None))
    assert not micro_batches(bare, GIB)
