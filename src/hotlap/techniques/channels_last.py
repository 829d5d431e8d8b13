"""Channels last: NHWC memory format for convolutional nets."""

from hotlap.core.move import Wrap
from hotlap.core.pattern import Pattern
from hotlap.core.technique import (
    Claim,
    Example,
    Group,
    How,
    Need,
    Numerics,
    Symptom,
    Technique,
    Work,
)

technique = Technique(
    title="Store images and filters channels last",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.MOVE,),
    inference=True,
    why=(
        "Convolution kernels on tensor cores and in oneDNN work on NHWC data. In NCHW each "
        "convolution transposes its input and output."
    ),
    changes=(
        "Shapes stay NCHW, only strides change; kernels may sum in another order. 4-D outputs "
        "are handed back in the default format. Dropout draws in the order of memory; here its "
        "masks are those of the plain run, in the patched source other elements are dropped."
    ),
    avoid=(
        "Leave it off when the forward calls .view() on 4-D activations (it fails; .reshape() or "
        ".flatten() work), for nets without 4-D weights, and after wrapping in DDP: convert the "
        "model first."
    ),
    claims=(Claim("8 % to 35 % with fp16", "A0: '18 tips' article, 2022"),),
    needs=(
        Need("conv4d", "the model has no 4-D weights"),
        Need("!channels_last_on", "the model is already channels last"),
    ),
    moves=(
        Wrap(
            "root call",
            "hotlap.seam.layout:channels_last",
            edit="hotlap.source.edits.memory_format:channels_last",
        ),
    ),
    symptom=Symptom(
        phases=("forward", "backward"),
        says="convolutions on channels-last data",
        place="model",
        gives=0.4,
        sure=False,
        whole=False,
        work=Work.KERNELS,
    ),
    patterns=(
        Pattern(
            id="channels_first_convolutions",
            says="convolutions run in the channels-first memory format",
            remedy="race channels_last: model and images .to(memory_format=torch.channels_last)",
            ignore="the convolutions are few or have very few channels; a race decides",
            check="hotlap.source.checks.absent:channels_first_convolutions",
            hint=True,
            absent=True,
        ),
    ),
    examples=(
        Example(
            "import torch\n"
            "from torch import nn\n"
            "\n"
            "\n"
            "class Net(nn.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.conv = nn.Conv2d(3, 16, 3)\n"
            "        self.head = nn.Linear(16, 10)\n"
            "\n"
            "    def forward(self, images):\n"
            "        return self.head(self.conv(images).mean((2, 3)))\n"
            "\n"
            "\n"
            "model = Net().to(device)\n"
            "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
            "for images, labels in loader:\n"
            "    outputs = model(images)\n",
            "import torch\n"
            "from torch import nn\n"
            "\n"
            "\n"
            "class Net(nn.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.conv = nn.Conv2d(3, 16, 3)\n"
            "        self.head = nn.Linear(16, 10)\n"
            "\n"
            "    def forward(self, images):\n"
            "        return self.head(self.conv(images).mean((2, 3)))\n"
            "\n"
            "\n"
            "model = Net().to(device).to(memory_format=torch.channels_last)\n"
            "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
            "for images, labels in loader:\n"
            "    outputs = model(images.contiguous(memory_format=torch.channels_last))\n",
        ),
        Example(
            "model = Net().to(memory_format=torch.channels_last)\n",
        ),
    ),
    grants=(("channels_last_on", True),),
)
