"""GELU in C or Triton."""

from hotlap.core.move import Swap
from hotlap.core.numerics import Numerics
from hotlap.core.technique import Claim, Example, Group, How, Need, Symptom, Technique

technique = Technique(
    title="Compute GELU with the fastest kernel measured",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.MOVE,),
    why=(
        "Each call runs the implementation that was measured to be fastest for its device, "
        "dtype and size: torch's own, C for the CPU, or Triton."
    ),
    changes="The same formula with other roundings: float32 is computed in double, rounded once.",
    avoid="Leave it off under torch.compile, which fuses the operator with its neighbours.",
    claims=(Claim("gelu 1.2 ms -> 0.1 ms in CUDA", "A2: 'six techniques' article"),),
    needs=(
        Need("model", "no module with parameters is called"),
        Need("!compiled", "the model is compiled, and its operators are fused already"),
    ),
    moves=(
        Swap(
            ("torch.nn.functional.gelu",),
            "hotlap.kernels.swaps:gelu",
            written="hotlap.kernels.gelu",
        ),
    ),
    symptom=Symptom(
        phases=("forward", "backward"),
        says="gelu as one kernel, where it is measured to be faster",
        place="model",
        gives=0.1,
        sure=False,
    ),
    examples=(
        Example(
            "import torch\n\ny = torch.nn.functional.gelu(x)\n",
            "import torch\nfrom hotlap.kernels import gelu\n\ny = gelu(x)\n",
        ),
        Example("import torch\n\ny = torch.nn.functional.relu(x)\n"),
    ),
)
