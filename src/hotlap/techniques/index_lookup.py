"""Rows of a table by index instead of by a matrix product."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Pick rows by index, not by a product with one-hot vectors",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.ADVICE,),
    inference=True,
    why=(
        "The product of a one-hot vector and a matrix is one of its rows. As a matrix product it "
        "reads the whole table for every index, and so does its gradient. F.embedding, or an "
        "index, reads the rows that are wanted."
    ),
    changes="The gradients of rows that are picked several times are summed in another order.",
    avoid="Leave the product where the vectors are not exactly one-hot, such as smoothed labels.",
    claims=(Claim("goes beyond the articles", "torch.nn.functional.embedding documentation"),),
    patterns=(
        Pattern(
            id="one_hot_product",
            says="rows of a matrix are picked by a product with one-hot vectors",
            remedy="F.embedding(indices, weight), weight[indices], or nn.Embedding for the layer",
            ignore="the table has only a few rows",
            check="hotlap.source.checks.tables:one_hot_product",
            hint=True,
            phases=("forward", "other"),
            differentiated=True,
        ),
    ),
    examples=(
        Example(
            "import torch.nn.functional as F\n\nrows = F.one_hot(ids, 5000).float() @ table\n",
            "import torch.nn.functional as F\n\nrows = F.embedding(ids, table)\n",
        ),
        Example(
            "import torch.nn.functional as F\n\nlabels = F.one_hot(ids, 10).float()\n",
        ),
    ),
)
