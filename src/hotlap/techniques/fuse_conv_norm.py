"""Convolution and batch normalisation as one layer in evaluation."""

from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Fuse convolution and batch normalisation for evaluation",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.PART,),
    why=(
        "In evaluation a batch normalisation multiplies and shifts each channel by fixed numbers. "
        "Folded into the weights of the layer before it, it costs nothing, and one pass over the "
        "activations is saved."
    ),
    changes="Weights and scales are multiplied once instead of one after the other: rounding.",
    avoid=(
        "Leave it off in training, where the statistics are those of each batch, and where the "
        "layer's output has another reader (`fuse_conv_norm` leaves such a pair alone)."
    ),
    claims=(Claim("named without a figure", "PyTorch's tutorial on fusing modules"),),
    examples=(
        Example(
            "import torch\n\nmodel.eval()\nwith torch.no_grad():\n    outputs = model(images)\n",
            "import torch\n"
            "from hotlap.model import fuse_conv_norm\n\n"
            "fast = fuse_conv_norm(model.eval())\n"
            "with torch.no_grad():\n"
            "    outputs = fast(images)\n",
        ),
        Example("model.train()\nloss = criterion(model(images), labels)\n"),
    ),
)
