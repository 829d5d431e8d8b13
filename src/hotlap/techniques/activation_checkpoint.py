"""Activation checkpointing: recompute in backward instead of keeping."""

from hotlap.core.move import Wrap
from hotlap.core.needs import MODEL
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Recompute activations in backward",
    group=Group.MEMORY,
    numerics=Numerics.EXACT,
    how=(How.MOVE, How.PART),
    why=(
        "Between forward and backward every activation is kept. A checkpointed block keeps only "
        "its inputs and computes the rest again: less memory, which a larger batch or model can "
        "use, for about a third more computation."
    ),
    changes=(
        "Nothing: random numbers are replayed, and the running statistics of batch normalisation "
        "are not updated a second time."
    ),
    avoid=(
        "Leave it off when memory is not the limit: by itself it makes the step slower. Blocks "
        "that count their calls or keep other state would do so twice."
    ),
    claims=(
        Claim(
            "ViT-Huge 48 -> 24 GB and 14 -> 3.5 days, with the six techniques together",
            "A2: 'six techniques' article",
        ),
    ),
    needs=(MODEL,),
    conflicts=("cuda_graphs", "fused_pointwise"),
    moves=(
        Wrap(
            "root call",
            "hotlap.seam.checkpointing:activation_checkpoint",
            edit="hotlap.source.edits.checkpointing:activation_checkpoint",
        ),
    ),
    examples=(
        Example(
            "import torch\n"
            "from torch import nn\n"
            "\n"
            "\n"
            "class Encoder(nn.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.blocks = nn.ModuleList(Block() for _ in range(12))\n"
            "\n"
            "    def forward(self, x):\n"
            "        for block in self.blocks:\n"
            "            x = block(x)\n"
            "        return x\n",
            "import torch\n"
            "from torch import nn\n"
            "from torch.utils.checkpoint import checkpoint\n"
            "\n"
            "\n"
            "class Encoder(nn.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.blocks = nn.ModuleList(Block() for _ in range(12))\n"
            "\n"
            "    def forward(self, x):\n"
            "        for block in self.blocks:\n"
            "            x = checkpoint(block, x, use_reentrant=False)\n"
            "        return x\n",
        ),
        Example(
            "from torch import nn\n"
            "from torch.utils.checkpoint import checkpoint\n"
            "\n"
            "\n"
            "class Encoder(nn.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.blocks = nn.ModuleList(Block() for _ in range(12))\n"
            "\n"
            "    def forward(self, x):\n"
            "        for block in self.blocks:\n"
            "            x = checkpoint(block, x, use_reentrant=False)\n"
            "        return x\n",
        ),
    ),
    on_request=True,
    saves_memory=True,
)
