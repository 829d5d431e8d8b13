"""The state of Adam and AdamW in 8 bits."""

from hotlap.core.move import Swap
from hotlap.core.needs import MODEL
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Keep the state of Adam in 8 bits",
    group=Group.MEMORY,
    numerics=Numerics.TRAINING,
    how=(How.MOVE,),
    saves_memory=True,
    on_request=True,
    why=(
        "Adam keeps two float32 numbers for each parameter: twice the size of the model. In 8 bits "
        "with a scale for each 256 elements they take a quarter, so that a larger batch or model "
        "fits."
    ),
    changes=(
        "Both averages are rounded after each step, by torchao's dynamic code. Parameters of fewer "
        "than 4,096 elements keep theirs in full. A saved optimizer state holds torchao's tensors "
        "and needs torchao to be loaded."
    ),
    avoid=(
        "Leave it off where memory is not short: each step widens and rounds the state, which "
        "takes time: on an H100 a GPT of width 1024 ran at 0.47x its speed, and its peak of memory "
        "fell from 2.50 to 2.10 GB (record 2026-11-28-5b0135232985/gpu). With amsgrad, "
        "capturable or differentiable it leaves the state alone."
    ),
    claims=(
        Claim(
            "goes beyond the articles",
            "Dettmers et al., 8-bit Optimizers via Block-wise Quantization, 2022",
        ),
    ),
    needs=(MODEL,),
    moves=(
        Swap(
            # Dynamo gives AdamW one of its own
            ("torch.optim.Adam._init_group", "torch.optim.AdamW._init_group"),
            "hotlap.seam.low_precision:eight_bit_state",
            requires="torchao",
            extra="hotlap[compress]",
        ),
        Swap(
            ("torch.optim.adam.adam",),
            "hotlap.seam.low_precision:eight_bit_adam",
            requires="torchao",
            extra="hotlap[compress]",
        ),
    ),
    examples=(
        Example(
            "import torch\n\noptimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)\n",
            "from torchao.optim import AdamW8bit\n\n"
            "optimizer = AdamW8bit(model.parameters(), lr=1e-3)\n",
        ),
        Example("import torch\n\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"),
    ),
)
