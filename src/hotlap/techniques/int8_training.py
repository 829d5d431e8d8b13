"""Linear layers that multiply in 8-bit integers while they train."""

from hotlap.core.move import Swap
from hotlap.core.needs import CONVERTED_BEFORE, CUDA, LINEAR_LAYERS, MODEL
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
    title="Compute the products of linear layers in int8 while training",
    group=Group.COMPUTE,
    numerics=Numerics.PRECISION,
    how=(How.MOVE,),
    why=(
        "GPUs since Ampere multiply int8 at twice the rate of 16 bits, also those without float8 "
        "units. Each product's operands are scaled by row and column and rounded; parameters and "
        "optimizer stay as they are."
    ),
    changes=(
        "Operands of the forward and backward products are rounded to 256 levels of their row or "
        "column. The sums are exact in 32 bits. A classifier's head (more than 6 outputs for each "
        "input) stays as it is: int8 would round most of its gradient to zero."
    ),
    avoid=(
        "Leave it off for small layers, where gradients vary widely within a row, and where a GPU "
        "has float8 units: fp8_linear keeps a wider range. hotlap rounds the operands anew at each "
        "call, in operations of their own. On an H200 a GPT of width 1024, not compiled, ran at "
        "0.85x its float32 speed with mixed_precision and int8_training, and at 3.75x with "
        "mixed_precision alone (record 2026-11-26-185a03426ec5/gpu)."
    ),
    claims=(Claim("goes beyond the articles", "torchao documentation, quantized training"),),
    needs=(
        MODEL,
        CUDA,
        LINEAR_LAYERS,
        Need("fast_int8", "this device has no int8 matrix products for training"),
        CONVERTED_BEFORE,
    ),
    moves=(
        Swap(
            ("torch.nn.Linear.forward",),
            "hotlap.seam.low_precision:int8_linear",
            serves="hotlap.seam.low_precision:serves_int8",
            requires="torchao",
            extra="hotlap[compress]",
        ),
    ),
    symptom=Symptom(
        phases=("forward", "backward"),
        says="linear layers in 8-bit integers",
        place="model",
        gives=0.3,
        sure=False,
        whole=False,
        work=Work.KERNELS,
    ),
    examples=(
        Example(
            "model = Transformer().cuda()\nloss = model(tokens)\nloss.backward()\n",
            "from torchao.prototype.quantized_training import int8_mixed_precision_training\n"
            "from torchao.quantization import quantize_\n\n"
            "model = Transformer().cuda()\n"
            "quantize_(model, int8_mixed_precision_training())\n"
            "loss = model(tokens)\n"
            "loss.backward()\n",
        ),
        Example("model = ConvNet().cuda()\nloss = model(images)\n"),
    ),
)
