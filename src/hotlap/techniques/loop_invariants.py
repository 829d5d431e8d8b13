"""What every step would compute anew, computed once."""

from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Compute once what is the same at every step",
    group=Group.COMPUTE,
    numerics=Numerics.EXACT,
    how=(How.ADVICE,),
    inference=True,
    why=(
        "A normalised adjacency matrix, a mask, a table of positions or a filter that is built in "
        "forward() costs its time at every step, though it never changes. A profile compares the "
        "operators of several steps: the same operator on the same unchanged tensors, without "
        "random numbers and without gradients, has the same result."
    ),
    changes="Nothing, as long as what it is made of stays the same. The result takes memory.",
    avoid=(
        "Leave it where what is read changes later in the run, for example once an epoch: compute "
        "it again there."
    ),
    claims=(Claim("goes beyond the articles", "compilers call it loop-invariant code motion"),),
    examples=(
        Example(
            "import torch\n\n\n"
            "class Layer(torch.nn.Module):\n"
            "    def forward(self, x, adjacency):\n"
            "        degree = adjacency.sum(1).rsqrt()\n"
            "        return self.linear((degree[:, None] * adjacency * degree) @ x)\n",
            "import torch\n\n\n"
            "class Layer(torch.nn.Module):\n"
            "    def __init__(self, adjacency, linear):\n"
            "        super().__init__()\n"
            "        degree = adjacency.sum(1).rsqrt()\n"
            '        self.register_buffer("mixing", degree[:, None] * adjacency * degree)\n'
            "        self.linear = linear\n\n"
            "    def forward(self, x):\n"
            "        return self.linear(self.mixing @ x)\n",
        ),
        Example(
            "import torch\n\n\n"
            "class Layer(torch.nn.Module):\n"
            "    def forward(self, x):\n"
            "        keep = torch.rand(x.size(1)) < 0.9\n"
            "        return self.linear(x * keep)\n"
        ),
    ),
)
