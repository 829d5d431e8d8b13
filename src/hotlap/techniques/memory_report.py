"""Where the memory of a step goes."""

from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="See the peak of memory by phase and owner",
    group=Group.MEMORY,
    numerics=Numerics.EXACT,
    how=(How.PART,),
    inference=True,
    why=(
        "What to do about memory depends on who holds it: activations are recomputed or taken in "
        "smaller batches, optimizer state is sharded, a list of losses with their graphs is a "
        "fault. The peak alone does not tell them apart."
    ),
    changes="Nothing: it only looks.",
    avoid="Leave it out of timed runs: counting every storage makes a step several times slower.",
    claims=(Claim("named without a figure", "A2: 'six techniques' article"),),
    examples=(
        Example(
            "import torch\n\nloss = model(batch)\nloss.backward()\n"
            "print(torch.cuda.max_memory_allocated())\n",
            "from hotlap.memory import Meter\n\n"
            "with Meter(model, optimizer) as meter:\n"
            "    with meter.phase('forward'):\n"
            "        loss = model(batch)\n"
            "    with meter.phase('backward'):\n"
            "        loss.backward()\n"
            "print(meter.peaks['backward'])\n",
        ),
        Example("loss = model(batch)\nloss.backward()\n"),
    ),
)
