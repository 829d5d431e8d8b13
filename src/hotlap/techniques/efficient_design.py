"""ShuffleNetV2's guidelines: operations that go easy on memory."""

from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Design layers by the memory they touch, not by their FLOPs",
    group=Group.COMPUTE,
    numerics=Numerics.TRAINING,
    how=(How.ADVICE,),
    why=(
        "Two networks of equal FLOPs may differ in speed by what they read and write. Four "
        "guidelines: equal numbers of input and output channels touch the least memory; few groups "
        "in convolutions; few parallel branches, whose small kernels leave the device idle; few "
        "element-wise operations, which compute next to nothing for what they move."
    ),
    changes="It is another model: its accuracy has to be found anew.",
    avoid="Leave a model alone whose weights or published accuracy you depend on.",
    claims=(Claim("named without a figure", "A3: data-loading article, after ShuffleNetV2"),),
    examples=(
        Example(
            "from torch import nn\n\nmix = nn.Conv2d(64, 256, 1, groups=8)\n",
            "from torch import nn\n\nmix = nn.Conv2d(128, 128, 1)\n",
        ),
        Example("from torch import nn\n\nmix = nn.Conv2d(128, 128, 3)\n"),
    ),
)
