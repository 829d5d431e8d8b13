"""Products with a Jacobian or a Hessian, without the matrix."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Multiply by a Jacobian without making it",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.ADVICE,),
    inference=True,
    why=(
        "jacrev, jacfwd and hessian make the whole matrix, at one pass through the function for "
        "each row or column. Where it is only multiplied by a vector, one pass gives the product: "
        "forward mode (jvp) gives J @ v, reverse mode (vjp) v @ J, and forward mode of the "
        "gradient a Hessian times a vector."
    ),
    changes="The same derivatives, with other roundings.",
    avoid="Leave it where the matrix is needed, or multiplied by more vectors than it has columns.",
    claims=(
        Claim(
            "goes beyond the articles",
            "PyTorch documentation, torch.func tutorial on Jacobians, Hessians, hvp and vhp",
        ),
    ),
    patterns=(
        Pattern(
            id="whole_jacobian",
            says="a whole Jacobian or Hessian is made, of which only products are used",
            remedy=(
                "torch.func.jvp(f, (x,), (v,))[1] is J @ v, torch.func.vjp(f, x)[1](v)[0] is "
                "v @ J, and torch.func.jvp(torch.func.grad(f), (x,), (v,))[1] is H @ v"
            ),
            ignore="it has only a few rows, or is multiplied by many vectors",
            check="hotlap.source.checks.jacobians:whole_jacobian",
            fault=True,
            hint=True,
        ),
    ),
    examples=(
        Example(
            "import torch\n\n\ndef directional(f, x, v):\n    return torch.func.jacrev(f)(x) @ v\n",
            "import torch\n\n\n"
            "def directional(f, x, v):\n"
            "    return torch.func.jvp(f, (x,), (v,))[1]\n",
        ),
        Example(
            "import torch\n\n\n"
            "def volume(f, x):\n"
            "    return torch.linalg.slogdet(torch.func.jacrev(f)(x))[1]\n"
        ),
    ),
)
