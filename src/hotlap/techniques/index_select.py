"""Rows that are picked by a tensor of indices."""

from hotlap.core.move import Wrap
from hotlap.core.needs import NOT_COMPILED
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Pick rows with index_select",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.MOVE,),
    switchable=True,
    inference=True,
    why=(
        "x[index] serves any combination of slices, masks and indices, so that it computes the "
        "address of each element by itself. index_select copies whole rows. In the backward pass "
        "x[index] adds up element by element, on several threads with atomic additions."
    ),
    changes=(
        "The same rows. Gradients of a row that is picked several times are added up in another "
        "order, which is the same in each run; with x[index] on several threads it is not."
    ),
    avoid="Leave it off where indices may be negative: index_select refuses them.",
    claims=(Claim("goes beyond the articles", "PyTorch documentation, torch.index_select"),),
    needs=(
        Need("row_lookups", "indexing with a tensor picks no rows on the CPU, or next to none"),
        NOT_COMPILED,
    ),
    moves=(Wrap("tensor", "hotlap.seam.rows:index_select"),),
    symptom=Symptom(
        phases=("lookups",),
        says="x.index_select(0, index) in the place of x[index]: it copies whole rows",
        place="row_lookups",
        gives=0.5,
    ),
    examples=(
        Example(
            "def messages(x, source):\n    return x[source]\n",
            "def messages(x, source):\n    return x.index_select(0, source)\n",
        ),
        Example("def first(x):\n    return x[:, 0]\n"),
    ),
)
