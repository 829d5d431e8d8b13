"""AdamW instead of Adam with L2."""

from hotlap.core.move import Keyword
from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Decay weights apart from the gradient",
    group=Group.OPTIMIZER,
    numerics=Numerics.TRAINING,
    how=(How.MOVE,),
    why=(
        "Adam divides the L2 term by the gradient's size, so weights with large gradients "
        "hardly decay. AdamW decays every weight alike, which as a rule reaches the same loss "
        "in fewer steps, and it has the same fused form."
    ),
    changes=(
        "The optimisation itself: another trajectory. A good decay for AdamW is larger, 1e-2 "
        "rather than 1e-4."
    ),
    avoid=("Leave it where a published recipe with Adam and L2 is to be reproduced."),
    claims=(Claim("named without a figure", "A4: '17 tips' article"),),
    moves=(
        Keyword(
            ("torch.optim.Adam",),
            "decoupled_weight_decay",
            True,
            over=(False,),
            unless=(("weight_decay", 0),),
        ),
    ),
    patterns=(
        Pattern(
            id="adam_with_decay",
            says="Adam scales the weight decay by each gradient",
            remedy="torch.optim.AdamW, with a larger weight_decay",
            ignore="a published result with this very decay is being reproduced",
            check="hotlap.source.checks.stepping:adam_with_decay",
            hint=True,
            phases=("optimizer",),
        ),
    ),
    examples=(
        Example(
            "optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-2)\n",
            "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)\n",
        ),
        Example(
            "optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)\n",
        ),
        Example(
            "optimizer = torch.optim.Adam(model.parameters(), weight_decay=0.0)\n",
        ),
    ),
)
