"""Debugging aids left on."""

from hotlap.core.move import Wrap
from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Switch anomaly detection off",
    group=Group.DEBUGGING,
    numerics=Numerics.EXACT,
    how=(How.MOVE, How.ADVICE),
    switchable=True,
    inference=True,
    why=(
        "Anomaly detection records a stack trace for every operation and checks every gradient "
        "for NaN. The autograd profiler and gradcheck cost as much; they are reported, not "
        "switched off, because the script may use what they return."
    ),
    changes="Nothing but that a NaN in backward is no longer an error at its place of origin.",
    avoid="Leave them on while you look for a NaN.",
    claims=(Claim("named without a figure", "A4: '17 tips' article"),),
    needs=(Need("anomaly", "anomaly detection is off"),),
    moves=(
        Wrap(
            "backward",
            "hotlap.seam.debug:anomaly_off",
            edit="hotlap.source.edits.removals:debug_off",
        ),
    ),
    symptom=Symptom(
        phases=("forward", "backward"),
        says="anomaly detection is on",
        place="anomaly",
        gives=0.7,
    ),
    patterns=(
        Pattern(
            id="anomaly_on",
            says="anomaly detection traces every operation and checks every gradient",
            remedy="switch it on by an option, only while you look for a NaN",
            ignore="a NaN is being looked for right now",
            check="hotlap.source.checks.debugging:anomaly_on",
            phases=("forward", "backward"),
        ),
        Pattern(
            id="profiler_on",
            says="a profiler records every step of the training",
            remedy="record a few steps: torch.profiler.profile(schedule=...), or by an option",
            ignore="this run is there to be profiled",
            check="hotlap.source.checks.debugging:profiler_on",
            phases=("forward", "backward", "optimizer", "other"),
        ),
        Pattern(
            id="gradcheck_left",
            says="gradients are checked numerically, by two forwards an input, in a training run",
            remedy="move the check into a test",
            ignore="the run is a test",
            check="hotlap.source.checks.debugging:gradcheck_left",
            phases=("other", "forward", "backward"),
        ),
    ),
    examples=(
        Example(
            "import torch\n\ntorch.autograd.set_detect_anomaly(True)\ntrain(model)\n",
            "import torch\n\ntrain(model)\n",
        ),
        Example(
            "import torch\n\nwith torch.autograd.detect_anomaly():\n    train(model)\n",
            "import torch\n\ntrain(model)\n",
        ),
        Example(
            "import torch\n\ntorch.autograd.set_detect_anomaly(False)\ntrain(model)\n",
        ),
        Example(
            "import torch\n\nassert torch.autograd.gradcheck(function, inputs)\n",
        ),
    ),
    grants=(("anomaly", False),),
)
