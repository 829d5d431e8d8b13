"""The batch that uses the machine."""

from hotlap.core.move import Choice, Wrap
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Technique

technique = Technique(
    title="Train at the fastest batch size that fits",
    group=Group.OPTIMIZER,
    numerics=Numerics.TRAINING,
    how=(How.MOVE, How.PART),
    why=(
        "Each step pays for kernel launches, Python and the optimizer once, whatever the batch. A "
        "larger batch shares them among more samples, until the device is full."
    ),
    changes=(
        "Fewer, larger steps: the learning rate has to follow (linearly for SGD, by the square "
        "root for Adam and LAMB, with warm-up), and the final accuracy may differ."
    ),
    avoid=(
        "Leave it off when the device is busy already, and above the batch where more samples no "
        "longer make the gradient better: `hotlap batch` shows where the speed ends."
    ),
    claims=(
        Claim("4x from batch 64 to 512 with one-cycle", "A4: '17 tips' article"),
        Claim("named without a figure", "A0: '18 tips' article, 2022"),
    ),
    needs=(Need("loaders", "no DataLoader is iterated"),),
    moves=(Wrap("loader", "hotlap.seam.training:larger_batch", Choice("times", (4,))),),
    examples=(
        Example(
            "import torch\n"
            "from torch.utils.data import DataLoader\n\n"
            "loader = DataLoader(data, batch_size=64, shuffle=True)\n"
            "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n",
            "# found by: hotlap batch python train.py\n"
            "import torch\n"
            "from hotlap.optim import scale_lr\n"
            "from torch.utils.data import DataLoader\n\n"
            "loader = DataLoader(data, batch_size=512, shuffle=True)\n"
            "rate = scale_lr(0.1, batch=512, base_batch=64)\n"
            "optimizer = torch.optim.SGD(model.parameters(), lr=rate)\n",
        ),
        Example(
            "from torch.utils.data import DataLoader\n\n"
            "loader = DataLoader(data, batch_sampler=buckets_of_one_length)\n"
        ),
    ),
)
