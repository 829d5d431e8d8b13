"""The order of products in an einsum of three or more tensors."""

from hotlap.core.move import Swap
from hotlap.core.needs import MODEL, NOT_FUSED
from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Multiply the operands of einsum in the cheapest order",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.MOVE,),
    switchable=True,
    inference=True,
    why=(
        "torch.einsum multiplies its operands from the left to the right, unless the package "
        "opt_einsum is installed. In another order the results in between may be far smaller: "
        "linear attention written as one einsum makes the matrix of all pairs of positions, which "
        "it is there to avoid."
    ),
    changes="The same sums, with other roundings.",
    avoid="Leave it off where sizes differ at each step: each combination is searched once.",
    claims=(
        Claim("goes beyond the articles", "PyTorch documentation, torch.einsum and opt_einsum"),
    ),
    needs=(
        MODEL,
        NOT_FUSED,
        Need("calls_einsum", "torch.einsum is not called"),
    ),
    moves=(
        Swap(
            ("torch.einsum", "torch.functional.einsum"),
            "hotlap.seam.contraction:einsum",
            serves="hotlap.seam.contraction:serves_einsum",
        ),
    ),
    symptom=Symptom(
        phases=("forward", "backward"),
        says="the operands of einsum in the order of fewest multiplications",
        place="model",
        gives=0.5,
        sure=False,
        whole=False,
    ),
    patterns=(
        Pattern(
            id="einsum_of_several",
            says="the operands are multiplied from the left to the right, whatever that costs",
            remedy=(
                "write two calls of two operands each in the cheapest order, or pip install "
                "opt-einsum: torch.einsum asks it for the order"
            ),
            ignore="opt_einsum is installed, or the order as written is the cheapest",
            check="hotlap.source.checks.products:einsum_of_several",
            fault=True,
            hint=True,
            phases=("forward", "backward"),
            differentiated=True,
        ),
    ),
    examples=(
        Example(
            "import torch\n\n\n"
            "def attend(q, k, v):\n"
            '    return torch.einsum("bnd,bmd,bme->bne", q, k, v)\n',
            "import torch\n\n\n"
            "def attend(q, k, v):\n"
            '    context = torch.einsum("bmd,bme->bde", k, v)\n'
            '    return torch.einsum("bnd,bde->bne", q, context)\n',
        ),
        Example(
            'import torch\n\n\ndef product(a, b):\n    return torch.einsum("ij,jk->ik", a, b)\n'
        ),
    ),
)
