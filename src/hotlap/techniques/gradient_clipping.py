"""Gradients clipped at their true size."""

from hotlap.core.move import Wrap
from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Clip gradients after unscaling them",
    group=Group.OPTIMIZER,
    numerics=Numerics.TRAINING,
    how=(How.MOVE, How.PART),
    why=(
        "Clipping bounds what one bad batch can do, so a larger learning rate holds and fewer "
        "steps are needed. It works only on gradients at their true size: under a GradScaler they "
        "are thousands of times larger, and clipping them as they are makes every step tiny."
    ),
    changes="Clipped steps are shorter: another optimisation, and another one for each bound.",
    avoid="Leave it off where gradients are well behaved: it costs a pass over all of them.",
    claims=(
        Claim("named without a figure", "A2: 'six techniques' article"),
        Claim("named without a figure", "A4: '17 tips' article"),
    ),
    moves=(Wrap("step", "hotlap.seam.training:gradient_clipping"),),
    patterns=(
        Pattern(
            id="unclipped_gradients",
            says="nothing limits the gradients of a recurrent or attention model",
            remedy="call torch.nn.utils.clip_grad_norm_ before optimizer.step()",
            ignore="the norm of the gradients stays bounded, as a log of it shows",
            check="hotlap.source.checks.absent:unclipped_gradients",
            hint=True,
            absent=True,
        ),
        Pattern(
            id="clip_before_unscale",
            says="gradients are clipped while still multiplied by the scaler's factor",
            remedy="call scaler.unscale_(optimizer) before clipping",
            ignore="never: the limit applies to the multiplied gradients",
            check="hotlap.source.checks.scaling:clip_before_unscale",
            phases=("optimizer", "other"),
        ),
    ),
    examples=(
        Example(
            "import torch\n\n"
            "scaler.scale(loss).backward()\n"
            "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
            "scaler.step(optimizer)\n",
            "import torch\n\n"
            "scaler.scale(loss).backward()\n"
            "scaler.unscale_(optimizer)\n"
            "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
            "scaler.step(optimizer)\n",
        ),
        Example(
            "import torch\n\n"
            "loss.backward()\n"
            "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
            "optimizer.step()\n"
        ),
    ),
)
