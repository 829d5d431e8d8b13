"""Graphs kept alive by what is collected."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Keep numbers, not graphs",
    group=Group.TRANSFER,
    numerics=Numerics.EXACT,
    how=(How.ADVICE,),
    why=(
        "An output or a loss that still has its graph keeps every activation of its step alive, "
        "unless backward() went through it. Summed or collected over steps, as in an evaluation "
        "with gradients, memory grows with each of them, and the allocator slows down before it "
        "fails. backward() frees the activations: of a loss that is collected after it only the "
        "nodes of the graph stay, some kilobytes a step. retain_graph=True keeps the activations "
        "past the backward pass, until the loss is bound again: the next forward pass finds less "
        "room."
    ),
    changes=("Nothing, as long as no one goes backward from the sum. Values are the same."),
    avoid=(
        "Keep the graph where the sum itself is gone backward from: several losses added up, or"
        " an episode collected before its update."
    ),
    claims=(Claim("named without a figure", "A4: '17 tips' article"),),
    patterns=(
        Pattern(
            id="graph_summed",
            says="the sum keeps the graph of every step alive",
            remedy="add loss.detach()",
            ignore="the sum is gone backward from in the end",
            check="hotlap.source.checks.retaining:graph_summed",
        ),
        Pattern(
            id="graph_kept",
            says="what is collected keeps the graph of every step alive",
            remedy="collect x.detach()",
            ignore="the values are gone backward from together later",
            check="hotlap.source.checks.retaining:graph_kept",
        ),
        Pattern(
            id="graph_retained",
            says="retain_graph=True keeps the graph of the step, but nothing goes through it again",
            remedy="call backward() without retain_graph",
            ignore="code that this file does not show goes backward through the same graph again",
            check="hotlap.source.checks.retain_graph:graph_retained",
            phases=("backward",),
        ),
    ),
    examples=(
        Example(
            "total = 0\n"
            "for images, labels in loader:\n"
            "    loss = criterion(model(images), labels)\n"
            "    loss.backward()\n"
            "    optimizer.step()\n"
            "    total += loss\n",
            "total = 0\n"
            "for images, labels in loader:\n"
            "    loss = criterion(model(images), labels)\n"
            "    loss.backward()\n"
            "    optimizer.step()\n"
            "    total += loss.detach()\n",
        ),
        Example(
            "history = []\n"
            "for images, labels in loader:\n"
            "    loss = criterion(model(images), labels)\n"
            "    loss.backward()\n"
            "    optimizer.step()\n"
            "    history.append(loss)\n",
            "history = []\n"
            "for images, labels in loader:\n"
            "    loss = criterion(model(images), labels)\n"
            "    loss.backward()\n"
            "    optimizer.step()\n"
            "    history.append(loss.detach())\n",
        ),
        Example(
            "for batches in groups:\n"
            "    loss = 0\n"
            "    for images, labels in batches:\n"
            "        loss += criterion(model(images), labels)\n"
            "    loss.backward()\n"
            "    optimizer.step()\n",
        ),
    ),
)
