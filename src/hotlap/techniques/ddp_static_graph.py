"""The same autograd graph at every step, said beforehand."""

from hotlap.core.move import Keyword
from hotlap.core.needs import DDP
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Tell DDP that the graph does not change",
    group=Group.DISTRIBUTED,
    numerics=Numerics.ROUNDING,
    how=(How.MOVE,),
    why=(
        "With static_graph=True DistributedDataParallel learns in the first step which parameters "
        "get a gradient, how often and in which order. It need not search the graph again, and it "
        "orders the buckets by it even where unused parameters are searched for. Re-entrant "
        "checkpointing and parameters used several times become possible."
    ),
    changes=(
        "Gradients are the same; with three ranks or more their sums may be added in another "
        "order. The first step reduces everything at its end."
    ),
    avoid=(
        "Leave it off where the graph depends on the data or on the step, and where gradients are "
        "accumulated under no_sync(): torch then fails with an internal assertion unless every "
        "micro-batch of the first step is synchronised (PyTorch issue 143580)."
    ),
    claims=(Claim("named without a figure", "PyTorch documentation, DistributedDataParallel"),),
    needs=(
        DDP,
        Need("ddp_not_static", "the graph is declared static already"),
        Need("!ddp_no_sync", "no_sync() is used: torch fails where both meet in the first step"),
    ),
    moves=(
        Keyword(
            ("torch.nn.parallel.DistributedDataParallel",),
            "static_graph",
            True,
            over=(False,),
        ),
    ),
    symptom=Symptom(
        phases=("forward", "backward"),
        says="a static graph, which DDP need not search at every step",
        place="ddp",
        gives=0.2,
        sure=False,
        whole=False,
    ),
    examples=(
        Example(
            "from torch.nn.parallel import DistributedDataParallel\n"
            "\n"
            "model = DistributedDataParallel(model)\n",
            "from torch.nn.parallel import DistributedDataParallel\n"
            "\n"
            "model = DistributedDataParallel(model, static_graph=True)\n",
        ),
        Example(
            "from torch.nn.parallel import DistributedDataParallel\n"
            "\n"
            "model = DistributedDataParallel(model, static_graph=True)\n",
        ),
    ),
    grants=(("ddp_not_static", False),),
)
