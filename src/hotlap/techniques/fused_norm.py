"""Layer norm and RMS norm in C or Triton."""

from hotlap.core.move import Swap
from hotlap.core.numerics import Numerics
from hotlap.core.technique import Claim, Example, Group, How, Need, Symptom, Technique

technique = Technique(
    title="Compute layer norm and RMS norm with the fastest kernel measured",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.MOVE,),
    why=(
        "Each call runs the implementation that was measured to be fastest for its device, "
        "dtype and size: torch's own, C for the CPU, or Triton."
    ),
    changes="The same formula with other roundings: float32 is computed in double, rounded once.",
    avoid="Leave it off under torch.compile, which fuses the operator with its neighbours.",
    claims=(Claim("goes beyond the articles", "Liger Kernel, 2024, section 3.2"),),
    needs=(
        Need("model", "no module with parameters is called"),
        Need("!compiled", "the model is compiled, and its operators are fused already"),
    ),
    moves=(
        Swap(("torch.nn.functional.layer_norm",), "hotlap.kernels.swaps:layer_norm"),
        Swap(("torch.nn.functional.rms_norm",), "hotlap.kernels.swaps:rms_norm"),
    ),
    symptom=Symptom(
        phases=("forward", "backward"),
        says="norms as one kernel, where it is measured to be faster",
        place="model",
        gives=0.1,
        sure=False,
    ),
    examples=(
        Example(
            "import torch\n\ny = torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, 1e-6)\n",
            "import torch\nfrom hotlap.kernels import rms_norm\n\ny = rms_norm(x, weight, 1e-6)\n",
        ),
        Example("import torch\n\ny = torch.nn.functional.batch_norm(x, mean, variance)\n"),
    ),
)
