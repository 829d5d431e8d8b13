"""Sizes that fill the tiles of matrix units."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Make channels, features, vocabulary and batch a multiple of 8",
    group=Group.COMPUTE,
    numerics=Numerics.TRAINING,
    how=(How.ADVICE,),
    inference=True,
    why=(
        "Tensor cores multiply tiles of 8 (on A100 and newer, 64 pay most). A size that is no "
        "multiple leaves tiles partly empty, or makes the library choose a slower kernel "
        "altogether, as memory rows no longer start at aligned addresses."
    ),
    changes=(
        "The model or the batch gets slightly larger, so it is another model: padded vocabulary "
        "entries are never asked for, but take part in the softmax unless they are masked."
    ),
    avoid=(
        "Leave alone what the task fixes (image channels, the number of classes), and small "
        "layers, whose time goes elsewhere."
    ),
    claims=(
        Claim(
            "1.3x to 4x for (33712, 4088, 4096) against 33708 and batches 4084 / 4095",
            "A0: '18 tips' article, 2022",
        ),
    ),
    patterns=(
        Pattern(
            id="odd_dimension",
            says="a size that is not a multiple of 8 leaves tensor cores partly idle",
            remedy="round the size up to the next multiple of 8 (64 on A100 and newer)",
            ignore="the size is given by the task, or the run is not in half precision on a GPU",
            check="hotlap.source.checks.shapes:odd_dimension",
            hint=True,
            phases=("forward", "backward", "optimizer"),
        ),
        Pattern(
            id="odd_batch",
            says="a batch size that is not a multiple of 8 leaves tensor cores partly idle",
            remedy="choose a multiple of 8, and drop_last=True for training",
            ignore="the rows of a matrix product are batch times length, and that is a "
            "multiple of 8",
            check="hotlap.source.checks.shapes:odd_batch",
            hint=True,
            phases=("forward", "backward"),
        ),
    ),
    examples=(
        Example(
            "from torch import nn\n\ntokens = nn.Embedding(50257, 768)\n",
            "from torch import nn\n\ntokens = nn.Embedding(50304, 768)\n",
        ),
        Example("from torch import nn\n\nhead = nn.Linear(512, 10)\n"),
        Example("from torch import nn\n\nstem = nn.Conv2d(3, 64, 7)\n"),
    ),
)
