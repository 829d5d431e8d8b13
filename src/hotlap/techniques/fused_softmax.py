"""Softmax in C or Triton."""

from hotlap.core.move import Swap
from hotlap.core.numerics import Numerics
from hotlap.core.technique import Claim, Example, Group, How, Need, Symptom, Technique

technique = Technique(
    title="Compute softmax with the fastest kernel measured",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.MOVE,),
    why=(
        "Each call runs the implementation that was measured to be fastest for its device, "
        "dtype and size: torch's own, C for the CPU, or Triton."
    ),
    changes="The same formula with other roundings: float32 is computed in double, rounded once.",
    avoid="Leave it off under torch.compile, which fuses the operator with its neighbours.",
    claims=(Claim("softmax as one fused kernel", "A2: 'six techniques' article"),),
    needs=(
        Need("model", "no module with parameters is called"),
        Need("!compiled", "the model is compiled, and its operators are fused already"),
    ),
    moves=(
        Swap(
            ("torch.nn.functional.softmax",),
            "hotlap.kernels.swaps:softmax",
            written="hotlap.kernels.softmax",
        ),
    ),
    symptom=Symptom(
        phases=("forward", "backward"),
        says="softmax as one kernel, where it is measured to be faster",
        place="model",
        gives=0.1,
        sure=False,
    ),
    examples=(
        Example(
            "import torch\n\ny = torch.nn.functional.softmax(x, dim=-1)\n",
            "import torch\nfrom hotlap.kernels import softmax\n\ny = softmax(x, dim=-1)\n",
        ),
        Example("import torch\n\ny = torch.nn.functional.log_softmax(x, dim=-1)\n"),
    ),
)
