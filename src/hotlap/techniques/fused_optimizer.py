"""Fused optimizer: one kernel for all parameters."""

from hotlap.core.move import Keyword, Wrap
from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Update all parameters in one fused kernel",
    group=Group.OPTIMIZER,
    numerics=Numerics.ROUNDING,
    how=(How.MOVE,),
    switchable=True,
    why=(
        "The plain optimizer runs ten or so operations for each parameter tensor, the foreach "
        "form as many for each group. The fused form reads and writes each parameter once."
    ),
    changes=(
        "The same formula in another order of roundings. A saved optimizer state carries "
        "fused=True."
    ),
    avoid=(
        "Leave it off with sparse gradients, differentiable=True, capturable=True, an explicit "
        "foreach=True, or parameters that are not floating point."
    ),
    claims=(Claim("5 % over plain Adam", "A4: '17 tips' article"),),
    needs=(Need("optimizer_unfused", "no optimizer with an unused fused form steps"),),
    moves=(
        Keyword(
            (
                "torch.optim.Adam",
                "torch.optim.AdamW",
                "torch.optim.SGD",
                "torch.optim.Adagrad",
            ),
            "fused",
            True,
            unless=(
                ("foreach", True),
                ("capturable", True),
                ("differentiable", True),
            ),
            when="hotlap.seam.fused:may_fuse",
        ),
        Wrap("step", "hotlap.seam.fused:where_supported"),
    ),
    symptom=Symptom(
        phases=("optimizer",),
        says="all parameters updated in one fused kernel",
        place="optimizer",
        gives=0.6,
        sure=False,
    ),
    patterns=(
        Pattern(
            id="foreach_off",
            says="foreach=False makes one round of kernels for each parameter tensor",
            remedy="drop foreach=False, or pass fused=True",
            ignore="memory is so short that a temporary copy of the parameters does not fit",
            check="hotlap.source.checks.stepping:foreach_off",
            phases=("optimizer", "other"),
        ),
        Pattern(
            id="unfused_optimizer",
            says="the optimizer has a fused form that is not used",
            remedy="pass fused=True",
            ignore="the gradients are sparse, or the parameters are few",
            check="hotlap.source.checks.stepping:unfused_optimizer",
            hint=True,
            phases=("optimizer",),
        ),
    ),
    examples=(
        Example(
            "import torch\n\noptimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)\n",
            "import torch\n"
            "\n"
            "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)\n",
        ),
        Example(
            "import torch\n\noptimizer = torch.optim.Adam(params, lr=1e-3, foreach=True)\n",
        ),
        Example(
            "import torch\n\noptimizer = torch.optim.Adam(params, lr=1e-3, capturable=True)\n",
        ),
        Example(
            "import torch\n\noptimizer = torch.optim.SparseAdam(params, lr=1e-3)\n",
        ),
    ),
    grants=(("optimizer_unfused", False),),
)
