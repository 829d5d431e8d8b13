"""The whole batch at once instead of sample by sample."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Compute the batch at once, not its samples in a Python loop",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.ADVICE,),
    inference=True,
    why=(
        "A loop over samples launches each operation once for every sample, on a matrix too small "
        "to fill the device, and pays for Python each time. Modules, matmul, einsum and "
        "torch.vmap take the batch as an axis."
    ),
    changes="Larger matrix products are summed in another order.",
    avoid=(
        "Leave the loop where samples differ in length or in what is done with them, and where one "
        "depends on the one before it."
    ),
    claims=(Claim("goes beyond the articles", "PyTorch performance tuning guide"),),
    patterns=(
        Pattern(
            id="loop_over_samples",
            says="the samples of a batch go through the same operations one at a time",
            remedy="apply the operations to the whole batch (torch.vmap where one takes no batch)",
            ignore="the samples have different shapes that cannot be padded",
            check="hotlap.source.checks.samples:loop_over_samples",
            hint=True,
            phases=("forward", "backward"),
            differentiated=True,
        ),
        Pattern(
            id="layers_one_by_one",
            says="layers of one kind read the same input one after another, in Python",
            remedy=(
                "keep their weights in one tensor and compute all in one product (for attention "
                "heads: one nn.Linear, then view(..., heads, width)); torch.func."
                "stack_module_state with torch.vmap does it for any layer"
            ),
            ignore="there are only a few, or each is large enough to fill the device",
            check="hotlap.source.checks.branches:layers_one_by_one",
            hint=True,
            small_operators=True,
            phases=("forward", "backward"),
            differentiated=True,
        ),
        Pattern(
            id="filled_by_loop",
            says="a tensor is filled element by element in Python, at every step",
            remedy=(
                "compute it with operations on whole tensors; what does not depend on the input is "
                "made once (register_buffer)"
            ),
            ignore="it has only a few elements",
            check="hotlap.source.checks.tables:filled_by_loop",
            hint=True,
            phases=("forward", "other"),
        ),
    ),
    examples=(
        Example(
            "import torch\n\n\n"
            "class Net(torch.nn.Module):\n"
            "    def forward(self, x):\n"
            "        return torch.stack([self.layer(x[i]) for i in range(x.size(0))])\n",
            "import torch\n\n\n"
            "class Net(torch.nn.Module):\n"
            "    def forward(self, x):\n"
            "        return self.layer(x)\n",
        ),
        Example(
            "import torch\n\n\n"
            "class Net(torch.nn.Module):\n"
            "    def __init__(self, width, heads):\n"
            "        super().__init__()\n"
            "        self.heads = torch.nn.ModuleList(\n"
            "            [torch.nn.Linear(width, width // heads) for _ in range(heads)]\n"
            "        )\n\n"
            "    def forward(self, x):\n"
            "        return torch.cat([head(x) for head in self.heads], dim=-1)\n",
            "import torch\n\n\n"
            "class Net(torch.nn.Module):\n"
            "    def __init__(self, width, heads):\n"
            "        super().__init__()\n"
            "        self.heads = torch.nn.Linear(width, width)\n\n"
            "    def forward(self, x):\n"
            "        return self.heads(x)\n",
        ),
        Example(
            "import torch\n\n\n"
            "class Net(torch.nn.Module):\n"
            "    def forward(self, x, state):\n"
            "        for t in range(x.size(0)):\n"
            "            state = self.cell(x[t], state)\n"
            "        return state\n"
        ),
    ),
)
