"""Needs that several techniques share, and the record that three kernels have in common."""

from hotlap.core.move import Swap
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

MODEL = Need("model", "no module with parameters is called")
CUDA = Need("cuda", "the model is not on a CUDA device")
DDP = Need("ddp", "no DistributedDataParallel model is trained")
LINEAR_LAYERS = Need("linear_layers", "the model has no nn.Linear")
FLOAT32_MODEL = Need("float32_model", "the model's parameters are not float32")
NOT_FUSED = Need("!compiled", "the model is compiled, and its operators are fused already")
NOT_COMPILED = Need("!compiled", "the model is already compiled")
CONVERTED_BEFORE = Need("!compiled", "the model is compiled: convert it before it is compiled")


def measured_kernel(
    operator: str,
    says: str,
    called: Need,
    claim: Claim,
    moves: tuple[Swap, ...],
    examples: tuple[Example, ...],
) -> Technique:
    """The record of an operator whose calls run the implementation that was measured fastest."""
    return Technique(
        title=f"Compute {operator} with the fastest kernel measured",
        group=Group.COMPUTE,
        numerics=Numerics.ROUNDING,
        how=(How.MOVE,),
        switchable=True,
        why=(
            "Each call runs the implementation that was measured to be fastest for its device, "
            "dtype and size: torch's own, C for the CPU, or Triton."
        ),
        changes=(
            "The same formula with other roundings: float32 is computed in double, rounded once."
        ),
        avoid="Leave it off under torch.compile, which fuses the operator with its neighbours.",
        claims=(claim,),
        needs=(MODEL, NOT_FUSED, called),
        moves=moves,
        symptom=Symptom(
            phases=("forward", "backward"),
            says=f"{says} as one kernel, where it is measured to be faster",
            place="model",
            gives=0.1,
            sure=False,
            whole=False,
        ),
        examples=examples,
    )
