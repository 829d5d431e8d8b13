"""No bias in a layer that a batch normalisation follows."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Drop the bias in front of a batch normalisation",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.ADVICE,),
    why=(
        "Batch normalisation subtracts the mean of each channel, and with it whatever the layer "
        "before has added to all of its values. The bias is added, differentiated, stored by the "
        "optimizer and reduced over ranks for nothing."
    ),
    changes=(
        "The function of the network stays the same up to rounding: the normalisation has a shift "
        "of its own. Checkpoints that hold the bias need it dropped when they are loaded."
    ),
    avoid=(
        "Leave the bias where the layer's output is also used without the normalisation, and in a "
        "model whose pretrained weights you load by name."
    ),
    claims=(
        Claim("named without a figure", "A0: '18 tips' article, 2022"),
        Claim("named without a figure", "A1: NVIDIA tuning-guide walk-through"),
        Claim("named without a figure", "A4: '17 tips' article"),
    ),
    patterns=(
        Pattern(
            id="bias_before_norm",
            says="the batch normalisation right after this layer takes its bias away again",
            remedy="pass bias=False",
            ignore="a checkpoint with these biases must still load unchanged",
            check="hotlap.source.checks.normalising:bias_before_norm",
            phases=("forward", "backward", "optimizer"),
        ),
    ),
    examples=(
        Example(
            "from torch import nn\n\n"
            "block = nn.Sequential(nn.Conv2d(64, 64, 3), nn.BatchNorm2d(64), nn.ReLU())\n",
            "from torch import nn\n\n"
            "block = nn.Sequential(nn.Conv2d(64, 64, 3, bias=False), nn.BatchNorm2d(64), "
            "nn.ReLU())\n",
        ),
        Example(
            "from torch import nn\n\n"
            "block = nn.Sequential(nn.Conv2d(64, 64, 3), nn.ReLU(), nn.BatchNorm2d(64))\n"
        ),
        Example("from torch import nn\n\nhead = nn.Sequential(nn.Linear(64, 10))\n"),
    ),
)
