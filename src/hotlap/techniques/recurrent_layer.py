"""All steps of a recurrence in one call."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Run all steps of a recurrence in one call",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.ADVICE,),
    inference=True,
    why=(
        "A loop over time launches each small operation of a cell once for every step, forward and "
        "backward, and pays for Python each time. nn.LSTM, nn.GRU and nn.RNN multiply the inputs "
        "of all steps at once, take all gates as one product, and stay in compiled code."
    ),
    changes="Matrix products are summed in another order.",
    avoid=(
        "Leave the loop where the input of a step is the output of the one before it, as in "
        "generation, and where the cell is none of theirs; what does not depend on the state can "
        "still be computed for all steps before the loop."
    ),
    claims=(Claim("goes beyond the articles", "PyTorch documentation of nn.LSTM"),),
    patterns=(
        Pattern(
            id="recurrence_by_hand",
            says="a recurrence runs step by step in Python",
            remedy=(
                "nn.LSTM, nn.GRU or nn.RNN run all steps in one call; of another cell: compute "
                "what does not depend on the state for all steps at once, and its gates as one "
                "product"
            ),
            ignore="there are only a few steps",
            check="hotlap.source.checks.recurrence:recurrence_by_hand",
            hint=True,
            phases=("forward", "backward"),
            differentiated=True,
        ),
    ),
    examples=(
        Example(
            "import torch\n\n\n"
            "class Net(torch.nn.Module):\n"
            "    def forward(self, x, state):\n"
            "        for t in range(x.size(1)):\n"
            "            state = self.cell(x[:, t], state)\n"
            "        return state\n",
            "import torch\n\n\n"
            "class Net(torch.nn.Module):\n"
            "    def forward(self, x, state):\n"
            "        _, state = self.gru(x, state)\n"
            "        return state\n",
        ),
        Example(
            "import torch\n\n\n"
            "class Net(torch.nn.Module):\n"
            "    def forward(self, x):\n"
            "        for layer in self.layers:\n"
            "            x = layer(x)\n"
            "        return x\n"
        ),
    ),
)
