"""No search for parameters that took no part."""

from hotlap.core.move import Keyword
from hotlap.core.needs import DDP
from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Do not search for unused parameters where all are used",
    group=Group.DISTRIBUTED,
    numerics=Numerics.ROUNDING,
    how=(How.MOVE,),
    why=(
        "With find_unused_parameters=True DistributedDataParallel walks the whole autograd graph "
        "before each backward pass, looking for parameters without a gradient. It also keeps the "
        "buckets in the order of the parameters, not in that in which gradients arrive, so that "
        "less of the reduction hides behind backward, and reduces one more tensor."
    ),
    changes=(
        "Gradients are the same; with three ranks or more their sums may be added in another "
        "order, as the buckets hold other parameters. A step in which a parameter takes no part "
        "ends in an error."
    ),
    avoid=(
        "Leave it off where some steps leave out a part of the model: layer drop, mixtures of "
        "experts, several heads, a discriminator that is frozen occasionally."
    ),
    claims=(
        Claim(
            "an extra traversal of the autograd graph every iteration",
            "PyTorch's own warning, and its documentation of DistributedDataParallel",
        ),
    ),
    needs=(
        DDP,
        Need("ddp_searches_unused", "unused parameters are not searched for"),
        Need("!ddp_unused", "some parameters took no part in a step"),
    ),
    moves=(
        Keyword(
            ("torch.nn.parallel.DistributedDataParallel",),
            "find_unused_parameters",
            False,
            over=(True,),
            absent=False,
        ),
    ),
    symptom=Symptom(
        phases=("forward", "backward"),
        says="every step searches for unused parameters, and there are none",
        place="ddp",
        gives=0.3,
        whole=False,
    ),
    patterns=(
        Pattern(
            id="unused_parameters_searched",
            says="the autograd graph is searched for unused parameters at every step",
            remedy="leave find_unused_parameters at False where every parameter takes part",
            ignore="some parameters really take no part in some steps",
            check="hotlap.source.checks.ranks:unused_parameters_searched",
            hint=True,
            phases=("forward", "backward"),
        ),
    ),
    examples=(
        Example(
            "from torch.nn.parallel import DistributedDataParallel\n"
            "\n"
            "model = DistributedDataParallel(model, find_unused_parameters=True)\n",
            "from torch.nn.parallel import DistributedDataParallel\n"
            "\n"
            "model = DistributedDataParallel(model, find_unused_parameters=False)\n",
        ),
        Example(
            "from torch.nn.parallel import DistributedDataParallel\n"
            "\n"
            "model = DistributedDataParallel(model)\n",
        ),
    ),
    grants=(("ddp_searches_unused", False),),
)
