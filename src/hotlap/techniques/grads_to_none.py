"""Gradients to None: no zeros are written, none are added to."""

from hotlap.core.move import Keyword
from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Drop gradients instead of filling them with zeros",
    group=Group.OPTIMIZER,
    numerics=Numerics.EXACT,
    how=(How.MOVE,),
    switchable=True,
    why=(
        "set_to_none=False writes zeros into every gradient and backward then adds to them. A "
        "dropped gradient costs no write, and backward stores its result directly."
    ),
    changes=(
        "Nothing where every parameter gets a gradient in each step. A parameter without one is "
        "then skipped by the optimizer rather than decayed or moved by its momentum."
    ),
    avoid=(
        "Leave it off when the script reads .grad of parameters that took no part in the step, or "
        "relies on weight decay and momentum moving them."
    ),
    claims=(
        Claim("modest", "A0: '18 tips' article, 2022"),
        Claim("modest", "A1: NVIDIA tuning-guide walk-through"),
        Claim("modest", "A4: '17 tips' article"),
    ),
    needs=(Need("zero_grad_false", "gradients are not filled with zeros"),),
    moves=(
        Keyword(
            ("torch.optim.Optimizer.zero_grad", "torch.nn.Module.zero_grad"),
            "set_to_none",
            True,
            over=(False,),
            absent=False,
        ),
    ),
    symptom=Symptom(
        phases=("optimizer", "backward"),
        says="zero_grad(set_to_none=False) writes zeros into every gradient",
        place="zero_grad",
        gives=0.2,
        by_line=True,
        line_gives=3.0,  # backward reads the zeros and writes the sums, where it would write alone
    ),
    patterns=(
        Pattern(
            id="gradients_zeroed",
            says="zeros are written into every gradient, and backward adds to them",
            remedy="leave set_to_none at its default, True",
            ignore="code reads the gradients of parameters that took no part",
            check="hotlap.source.checks.stepping:gradients_zeroed",
            phases=("other", "optimizer", "backward"),
        ),
    ),
    examples=(
        Example(
            "optimizer.zero_grad(set_to_none=False)\n",
            "optimizer.zero_grad(set_to_none=True)\n",
        ),
        Example(
            "optimizer.zero_grad()\n",
        ),
    ),
    grants=(("zero_grad_false", False),),
)
