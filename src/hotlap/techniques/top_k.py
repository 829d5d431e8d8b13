"""The largest elements, without sorting all of them."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Take the largest elements without sorting all",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.ADVICE,),
    inference=True,
    why=(
        "A sort orders all n elements of a row, though only the first k of them are read. "
        "torch.topk looks through the row for these, and sorts them alone."
    ),
    changes="The same values; of equal ones, others may be taken.",
    avoid="Leave it where a good part of the elements is taken.",
    claims=(Claim("goes beyond the articles", "PyTorch documentation, torch.topk"),),
    patterns=(
        Pattern(
            id="sorted_for_a_few",
            says="all elements are sorted to take a few of them",
            remedy=(
                "torch.topk(x, k, dim) gives the largest and their indices in order, and with "
                "largest=False the smallest; from rank a to b: topk(x, b)[...][:, a:]"
            ),
            ignore="a good part of them is taken, or there are only a few",
            check="hotlap.source.checks.sorting:sorted_for_a_few",
            fault=True,
            hint=True,
        ),
    ),
    examples=(
        Example(
            "import torch\n\n\n"
            "def hardest(similarity, k):\n"
            "    return similarity.argsort(dim=1, descending=True)[:, :k]\n",
            "import torch\n\n\n"
            "def hardest(similarity, k):\n"
            "    return similarity.topk(k, dim=1).indices\n",
        ),
        Example(
            "import torch\n\n\n"
            "def by_rank(scores):\n"
            "    values, order = scores.sort(descending=True)\n"
            "    return values.cumsum(-1), order[:, :5]\n"
        ),
    ),
)
