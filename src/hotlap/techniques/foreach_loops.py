"""Loops over parameters as one call."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Treat all parameters in one call",
    group=Group.OPTIMIZER,
    numerics=Numerics.ROUNDING,
    how=(How.ADVICE,),
    why=(
        "A Python loop over parameters launches a few kernels for each tensor, hundreds in all,"
        " each of them too small to fill the GPU. The library forms (torch._foreach, "
        "clip_grad_norm_, AveragedModel) treat all tensors in a few launches."
    ),
    changes=("The order of roundings. clip_grad_norm_ also guards against a norm of zero."),
    avoid=("Leave a loop that treats each parameter differently, or that runs once."),
    claims=(
        Claim(
            "beyond the articles: torch does the same in its optimizers (foreach)",
            "torch.optim documentation",
        ),
    ),
    patterns=(
        Pattern(
            id="ema_loop",
            says="the moving average is updated tensor by tensor",
            remedy="torch.optim.swa_utils.AveragedModel (multi_avg_fn), or torch._foreach_lerp_",
            ignore="the model has only a few parameter tensors",
            check="hotlap.source.checks.parameters:ema_loop",
            hint=True,
            phases=("other", "optimizer"),
        ),
        Pattern(
            id="clipping_loop",
            says="gradients are measured or clipped tensor by tensor",
            remedy="torch.nn.utils.clip_grad_norm_ or clip_grad_value_; it returns the norm",
            ignore="the model has only a few parameter tensors",
            check="hotlap.source.checks.parameters:clipping_loop",
            hint=True,
            phases=("other", "optimizer"),
        ),
        Pattern(
            id="penalty_loop",
            says="the weights are penalised tensor by tensor, in the graph of the loss",
            remedy=(
                "weight_decay of torch.optim.SGD or Adam gives the gradients of 0.5 * weight_decay "
                "* (p ** 2).sum() with no graph (AdamW decays another way); else one call for all, "
                "torch._foreach_norm(parameters)"
            ),
            ignore="the penalty is of another kind, or of a few tensors",
            check="hotlap.source.checks.parameters:penalty_loop",
            hint=True,
            phases=("other", "forward"),
            differentiated=True,
        ),
        Pattern(
            id="zeroing_loop",
            says="gradients are filled with zeros tensor by tensor",
            remedy="optimizer.zero_grad()",
            ignore="the model has only a few parameter tensors",
            check="hotlap.source.checks.parameters:zeroing_loop",
            hint=True,
            phases=("other", "optimizer"),
        ),
        Pattern(
            id="update_loop",
            says="parameters are updated tensor by tensor",
            remedy="torch.optim.SGD(parameters, fused=True), or torch._foreach_add_",
            ignore="the update is one that torch.optim does not have, on a few tensors",
            check="hotlap.source.checks.parameters:update_loop",
            hint=True,
            phases=("other", "optimizer"),
        ),
    ),
    examples=(
        Example(
            "for average, p in zip(ema.parameters(), model.parameters()):\n"
            "    average.mul_(0.999).add_(p, alpha=0.001)\n",
            "torch._foreach_lerp_(list(ema.parameters()), list(model.parameters()), 0.001)\n",
        ),
        Example(
            "for p in model.parameters():\n    p.grad.clamp_(-1, 1)\n",
            "torch.nn.utils.clip_grad_value_(model.parameters(), 1)\n",
        ),
        Example(
            "for p in model.parameters():\n    p.grad.zero_()\n",
            "optimizer.zero_grad()\n",
        ),
        Example(
            "for p in model.parameters():\n    p.data -= 0.1 * p.grad\n",
            "torch.optim.SGD(model.parameters(), lr=0.1).step()\n",
        ),
        Example(
            "for p in model.parameters():\n    p.requires_grad = False\n",
        ),
        Example(
            "for p in model.parameters():\n    torch.nn.init.normal_(p)\n",
        ),
    ),
)
