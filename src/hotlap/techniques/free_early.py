"""Large temporaries that outlive their use."""

from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Let go of large tensors before the next peak",
    group=Group.MEMORY,
    numerics=Numerics.EXACT,
    how=(How.ADVICE,),
    why=(
        "A name keeps its tensor until it is bound again or its function returns. The outputs of "
        "the last batch, or of an evaluation, are still there while the next forward pass reaches "
        "its peak, and cost that much room for the batch."
    ),
    changes="Nothing: what is let go of is not used again.",
    avoid=(
        "Leave small tensors alone; and call no empty_cache() in the loop: it gives the memory back"
        " to the driver only to ask for it again."
    ),
    claims=(Claim("named without a figure", "A3: data-loading article"),),
    examples=(
        Example(
            "for images, labels in loader:\n"
            "    outputs = model(images)\n"
            "    loss = criterion(outputs, labels)\n"
            "    loss.backward()\n"
            "    optimizer.step()\n"
            "    optimizer.zero_grad()\n",
            "for images, labels in loader:\n"
            "    outputs = model(images)\n"
            "    loss = criterion(outputs, labels)\n"
            "    loss.backward()\n"
            "    del outputs\n"
            "    optimizer.step()\n"
            "    optimizer.zero_grad()\n",
        ),
        Example(
            "def train_step(images, labels):\n"
            "    loss = criterion(model(images), labels)\n"
            "    loss.backward()\n"
            "    return loss.detach()\n"
        ),
    ),
)
