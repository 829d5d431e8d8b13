"""CUDA graphs: many kernels, one launch."""

from hotlap.core.move import Wrap
from hotlap.core.needs import CUDA, MODEL, NOT_COMPILED
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
    title="Replay the model as a CUDA graph",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.MOVE,),
    inference=True,
    why=(
        "Small kernels end sooner than Python can launch the next. A recorded graph launches all "
        "of them at once (torch.compile with mode='reduce-overhead')."
    ),
    changes=(
        "As fused_pointwise. The graph keeps its memory for itself, and outputs are copied out of "
        "it so that the script may keep them."
    ),
    avoid=(
        "Leave it off when kernels are long (nothing is saved), when shapes change, when memory "
        "is tight, or when the model copies to the CPU in its forward."
    ),
    claims=(Claim("goes beyond the articles", "PyTorch documentation, torch.compile"),),
    needs=(
        CUDA,
        MODEL,
        Need("compiler", "inductor lacks Triton"),
        NOT_COMPILED,
    ),
    conflicts=("activation_checkpoint", "fused_pointwise", "int8_inference"),
    moves=(
        Wrap(
            "root call",
            "hotlap.seam.compiled:graphed",
            edit="hotlap.source.edits.compiled:graphed",
        ),
    ),
    symptom=Symptom(
        phases=("forward", "backward"),
        says="kernels launched as one CUDA graph",
        place="model",
        gives=0.8,
        sure=False,
        work=Work.LAUNCHES,
    ),
    examples=(
        Example(
            "import torch\n"
            "\n"
            "model = Net().cuda()\n"
            "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n",
            "import torch\n"
            "\n"
            "model = Net().cuda()\n"
            "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
            'model = torch.compile(model, mode="reduce-overhead")\n',
        ),
        Example(
            'import torch\n\nmodel = torch.compile(Net().cuda(), mode="max-autotune")\n',
        ),
    ),
    grants=(("compiled", True),),
)
