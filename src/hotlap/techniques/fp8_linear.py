"""Linear layers that multiply in float8."""

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
    title="Compute the products of linear layers in float8",
    group=Group.COMPUTE,
    numerics=Numerics.PRECISION,
    how=(How.MOVE,),
    why=(
        "A GPU with float8 units (Ada, Hopper, Blackwell) multiplies float8 at twice the rate of "
        "16 bits. Inputs, weights and gradients are scaled and cast for each product; parameters "
        "and optimizer stay as they are."
    ),
    changes=(
        "Each operand of a product keeps 3 bits (gradients 2) of mantissa, with one scale for the "
        "tensor. The sums stay in 32 bits."
    ),
    avoid=(
        "Leave it off for small layers, whose casts cost more than the product saves, and for the "
        "first and last layer where the quality suffers. hotlap casts the operands anew at each "
        "call, in operations of their own. On an H200 a GPT of width 1024, not compiled, ran at "
        "0.88x its float32 speed with mixed_precision and fp8_linear, and at 3.75x with "
        "mixed_precision alone (record 2026-11-26-185a03426ec5/gpu)."
    ),
    claims=(Claim("named without a figure", "A0: '18 tips' article, 2022"),),
    needs=(
        MODEL,
        CUDA,
        LINEAR_LAYERS,
        Need("fast_fp8", "this device has no float8 matrix products"),
        CONVERTED_BEFORE,
    ),
    moves=(
        Swap(
            ("torch.nn.Linear.forward",),
            "hotlap.seam.low_precision:fp8_linear",
            serves="hotlap.seam.low_precision:serves_fp8",
            requires="torchao",
            extra="hotlap[compress]",
        ),
    ),
    symptom=Symptom(
        phases=("forward", "backward"),
        says="linear layers in float8",
        place="model",
        gives=0.4,
        sure=False,
        whole=False,
        work=Work.KERNELS,
    ),
    examples=(
        Example(
            "model = Transformer().cuda()\nloss = model(tokens)\nloss.backward()\n",
            "from torchao.float8 import convert_to_float8_training\n\n"
            "model = convert_to_float8_training(Transformer().cuda())\n"
            "loss = model(tokens)\n"
            "loss.backward()\n",
        ),
        Example("model = ConvNet().cuda()\nloss = model(images)\n"),
    ),
)
