"""Activations that are kept where memory allows, instead of computed again."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Keep activations where memory allows",
    group=Group.MEMORY,
    numerics=Numerics.EXACT,
    how=(How.ADVICE,),
    why=(
        "A checkpointed block computes its forward pass a second time in the backward pass, to "
        "keep less in memory between the two. Where there is memory enough, that time is lost."
    ),
    changes="Nothing but the memory that a step takes.",
    avoid="Leave checkpointing on where the activations, or a larger batch, need the memory.",
    claims=(Claim("goes beyond the articles", "PyTorch documentation, torch.utils.checkpoint"),),
    patterns=(
        Pattern(
            id="recomputed_forward",
            says="a checkpointed block is computed a second time in the backward pass",
            remedy="call the block itself, or checkpoint every n-th one, where memory allows",
            ignore="the activations would not fit in memory",
            check="hotlap.source.checks.recomputing:recomputed_forward",
            fault=True,
            hint=True,
            phases=("forward",),
        ),
    ),
    examples=(
        Example(
            "import torch\n"
            "from torch.utils.checkpoint import checkpoint\n\n\n"
            "class Net(torch.nn.Module):\n"
            "    def forward(self, x):\n"
            "        for block in self.blocks:\n"
            "            x = checkpoint(block, x, use_reentrant=False)\n"
            "        return x\n",
            "import torch\n\n\n"
            "class Net(torch.nn.Module):\n"
            "    def forward(self, x):\n"
            "        for block in self.blocks:\n"
            "            x = block(x)\n"
            "        return x\n",
        ),
        Example(
            "import torch\n\n\n"
            "class Net(torch.nn.Module):\n"
            "    def forward(self, x):\n"
            "        for block in self.blocks:\n"
            "            x = checkpoint(block, x)\n"
            "        return x\n"
        ),
    ),
)
