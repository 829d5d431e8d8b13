"""All pairs compared by a matrix product, without an element for each pair and feature."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Compare all pairs by a matrix product",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.ADVICE,),
    inference=True,
    why=(
        "(a[:, None] * b[None]).sum(-1) writes one element for each pair and feature to memory, "
        "reads it again to add it up, and does the same in the backward pass. a @ b.T is the same "
        "sum: nothing but the result is written. Distances follow from it, as torch.cdist does."
    ),
    changes=(
        "The same sums in another order. A distance by way of products loses digits where it is "
        "far smaller than the vectors are long."
    ),
    avoid="Leave it where there are only a few pairs, or where only small distances matter.",
    claims=(Claim("goes beyond the articles", "PyTorch documentation, torch.cdist"),),
    patterns=(
        Pattern(
            id="pairs_by_broadcast",
            says="one element is made for each pair and feature, and then summed up",
            remedy=(
                "a matrix product: (a[:, None] * b[None]).sum(-1) is a @ b.T, "
                "((a[:, None] - b[None]) ** 2).sum(-1) is torch.cdist(a, b) ** 2, and cosines are "
                "the product of rows that were normalized before"
            ),
            ignore="there are only a few pairs, or a few features",
            check="hotlap.source.checks.products:pairs_by_broadcast",
            fault=True,
            hint=True,
            phases=("forward", "other"),
            differentiated=True,
        ),
    ),
    examples=(
        Example(
            "def similarities(a, b):\n    return (a[:, None] * b[None]).sum(-1)\n",
            "def similarities(a, b):\n    return a @ b.T\n",
        ),
        Example("def lengths(a):\n    return (a * a).sum(-1)\n"),
    ),
)
