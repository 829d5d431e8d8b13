"""Debugging aids left on."""

from hotlap.core.move import Wrap
from hotlap.core.numerics import Numerics
from hotlap.core.technique import Claim, Example, Group, How, Need, Symptom, Technique

technique = Technique(
    title="Switch anomaly detection off",
    group=Group.CHECKING,
    numerics=Numerics.EXACT,
    how=(How.MOVE, How.ADVICE),
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
            edit="hotlap.source.edits.anomaly:debug_off",
        ),
    ),
    symptom=Symptom(
        phases=("forward", "backward"),
        says="anomaly detection is on",
        place="anomaly",
        gives=0.7,
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
