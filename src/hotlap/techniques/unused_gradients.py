"""Gradients of parameters that no optimizer of this step updates."""

from hotlap.core.move import Wrap
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Compute no gradients that are dropped unused",
    group=Group.COMPUTE,
    numerics=Numerics.EXACT,
    how=(How.MOVE,),
    why=(
        "The backward pass of a GAN's generator also computes the gradients of the discriminator's "
        "parameters, which zero_grad drops before the discriminator's own step. A frozen backbone "
        "without requires_grad_(False) pays for a backward pass that nobody reads."
    ),
    changes=(
        "Nothing: the gradients that an optimizer uses are computed by the same operators. The "
        ".grad of the parameters that are left out is not filled. Lines are watched for three "
        "rounds first; a program that reads .grad itself, hooks into gradients or runs Python in "
        "the backward pass is left alone."
    ),
    avoid=(
        "Leave it off where a library reads the gradients, or where an optimizer takes over frozen "
        "parameters later and steps before it clears their gradients."
    ),
    claims=(
        Claim("stop gradients where none are needed; no figure", "A1: NVIDIA tuning-guide "
              "walk-through"),
    ),
    needs=(
        Need("unused_gradients", "every gradient is used"),
        Need("!distributed", "several ranks exchange all gradients"),
    ),
    moves=(Wrap("backward", "hotlap.seam.unused_gradients:unused_gradients"),),
    symptom=Symptom(
        phases=("backward",),
        says=(
            "gradients are computed of parameters that no optimizer updates with them: detach() or "
            "requires_grad_(False) is missing in front of this line; where only the gradient of an "
            "input is used, torch.autograd.grad(loss, input) computes no other"
        ),
        place="unused_gradients",
        gives=0.5,
        whole=False,
    ),
    examples=(
        Example(
            "import torch\n\n\n"
            "def discriminator_step(generator, discriminator, optimizer, real, noise, loss):\n"
            "    optimizer.zero_grad()\n"
            "    fake = generator(noise)\n"
            "    loss(discriminator(real), discriminator(fake)).backward()\n"
            "    optimizer.step()\n",
            "import torch\n\n\n"
            "def discriminator_step(generator, discriminator, optimizer, real, noise, loss):\n"
            "    optimizer.zero_grad()\n"
            "    fake = generator(noise)\n"
            "    loss(discriminator(real), discriminator(fake.detach())).backward()\n"
            "    optimizer.step()\n",
        ),
        Example(
            "import torch\n\n\n"
            "def generator_step(generator, discriminator, optimizer, noise, loss):\n"
            "    optimizer.zero_grad()\n"
            "    loss(discriminator(generator(noise))).backward()\n"
            "    optimizer.step()\n",
            "import torch\n\n\n"
            "def generator_step(generator, discriminator, optimizer, noise, loss):\n"
            "    optimizer.zero_grad()\n"
            "    discriminator.requires_grad_(False)\n"
            "    loss(discriminator(generator(noise))).backward()\n"
            "    discriminator.requires_grad_(True)\n"
            "    optimizer.step()\n",
        ),
        Example(
            "def step(model, optimizer, x, loss):\n"
            "    optimizer.zero_grad()\n"
            "    loss(model(x)).backward()\n"
            "    optimizer.step()\n"
        ),
    ),
    grants=(("unused_gradients", False),),
)  # fmt: skip
