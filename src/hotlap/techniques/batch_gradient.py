"""One gradient of a batch, where the gradients of its samples are only averaged."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Take the gradient of the mean, not the mean of gradients",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.ADVICE,),
    why=(
        "vmap(grad(loss)) makes a gradient of the size of the parameters for each sample, and runs "
        "its products of matrices one by one. Where the samples' gradients are only averaged, the "
        "gradient of the mean loss is the same: one backward pass over the batch."
    ),
    changes="The same gradients, with other roundings.",
    avoid=(
        "Leave it where the gradient of each sample is clipped, compared or kept, as for "
        "differential privacy, and where a layer mixes the samples of a batch, as batch "
        "normalisation does."
    ),
    claims=(
        Claim(
            "goes beyond the articles", "PyTorch documentation, torch.func: per-sample-gradients"
        ),
    ),
    patterns=(
        Pattern(
            id="averaged_gradients",
            says="a gradient is computed for each sample, and only their mean or sum is used",
            remedy=(
                "one gradient of the mean loss: torch.func.grad(mean_loss)(params, x, y), or "
                "loss.backward() for the whole batch"
            ),
            ignore="the samples influence each other in a batch, through batch normalisation",
            check="hotlap.source.checks.jacobians:averaged_gradients",
            fault=True,
            phases=("backward", "forward", "other"),
        ),
    ),
    examples=(
        Example(
            "import torch\n"
            "from torch.func import grad, vmap\n"
            "\n\n"
            "def mean_gradient(loss, params, x, y):\n"
            "    grads = vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)\n"
            "    return {name: g.mean(0) for name, g in grads.items()}\n",
            "import torch\n"
            "from torch.func import grad, vmap\n"
            "\n\n"
            "def mean_gradient(loss, params, x, y):\n"
            "    def mean_loss(params, x, y):\n"
            "        return vmap(loss, in_dims=(None, 0, 0))(params, x, y).mean()\n"
            "\n"
            "    return grad(mean_loss)(params, x, y)\n",
        ),
        Example(
            "import torch\n"
            "from torch.func import grad, vmap\n"
            "\n\n"
            "def clipped_gradient(loss, params, x, y):\n"
            "    grads = vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)\n"
            "    norm = sum(g.flatten(1).square().sum(1) for g in grads.values()).sqrt()\n"
            "    return [torch.einsum('b,b...->...', (1 / norm).clamp(max=1), g)\n"
            "            for g in grads.values()]\n"
        ),
    ),
)
