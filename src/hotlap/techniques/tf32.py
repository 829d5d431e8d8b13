"""TF32: float32 matrix products on tensor cores."""

from hotlap.core.move import Call
from hotlap.core.needs import CUDA, FLOAT32_MODEL
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
    title="Multiply float32 matrices in TF32",
    group=Group.COMPUTE,
    numerics=Numerics.PRECISION,
    how=(How.MOVE,),
    switchable=True,
    inference=True,
    why=(
        "From Ampere on, tensor cores can multiply float32 matrices with their mantissas cut to "
        "10 bits, several times faster than full float32. torch leaves this off for matrix "
        "products (for convolutions it is on)."
    ),
    changes="Products of float32 matrices keep about 3 decimal digits; sums stay in float32.",
    avoid=(
        "Leave it off when a result depends on the low bits of a product: matrix inverses, "
        "distances between near points, scientific computing."
    ),
    claims=(Claim("goes beyond the articles", "PyTorch documentation, CUDA semantics"),),
    needs=(
        CUDA,
        Need("fp32_matmul_full", "the float32 matmul precision is already lowered"),
        FLOAT32_MODEL,
    ),
    moves=(
        Call(
            "torch.set_float32_matmul_precision",
            "high",
            "torch.get_float32_matmul_precision",
        ),
    ),
    symptom=Symptom(
        phases=("forward", "backward"),
        says="float32 matrix products on tensor cores (TF32)",
        place="model",
        gives=0.6,
        sure=False,
        whole=False,
        work=Work.KERNELS,
    ),
    examples=(
        Example(
            "import torch\n\nmodel = Net().cuda()\n",
            'import torch\n\ntorch.set_float32_matmul_precision("high")\n\nmodel = Net().cuda()\n',
        ),
        Example(
            'import torch\n\ntorch.set_float32_matmul_precision("medium")\n',
        ),
    ),
    grants=(("fp32_matmul_full", False),),
)
