"""What need not be done at each step: logs, and the collection of garbage."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Log and collect garbage every so many steps",
    group=Group.DEBUGGING,
    numerics=Numerics.EXACT,
    how=(How.ADVICE,),
    inference=True,
    why=(
        "A log of each step formats numbers, keeps them and often flushes a file, while the "
        "training waits. A trainer that logs keeps a metric for each name and reduces it, which "
        "for the norm of each parameter takes longer than the step of a small model. gc.collect() "
        "looks at every Python object; the collector runs by itself where many are made."
    ),
    changes="The log has fewer rows; the training is the same.",
    avoid="Leave it where a step takes seconds, or where each step's numbers are needed.",
    claims=(Claim("goes beyond the articles", "Lightning documentation, log_every_n_steps"),),
    patterns=(
        Pattern(
            id="collected_in_step",
            says="each step walks over every Python object alive",
            remedy="drop it: tensors are freed when their last reference goes",
            ignore="cycles of objects hold tensors, and memory runs out without it",
            check="hotlap.source.checks.devices:collected_in_step",
            phases=("other",),
        ),
        Pattern(
            id="logging_in_step",
            says="each step writes a log",
            remedy="log every so many steps, and let the writer flush by itself",
            ignore="a step takes seconds",
            check="hotlap.source.checks.saving:logging_in_step",
            hint=True,
            phases=("other", "saving", "optimizer", "forward"),
        ),
    ),
    examples=(
        Example(
            "import torch\n\n"
            "for step, batch in enumerate(loader):\n"
            "    loss = model(batch)\n"
            "    loss.backward()\n"
            "    optimizer.step()\n"
            '    writer.add_scalar("loss", loss.detach(), step)\n',
            "import torch\n\n"
            "for step, batch in enumerate(loader):\n"
            "    loss = model(batch)\n"
            "    loss.backward()\n"
            "    optimizer.step()\n"
            "    if step % 50 == 0:\n"
            '        writer.add_scalar("loss", loss.detach(), step)\n',
        ),
        Example(
            "import torch\n\n"
            "for epoch in range(10):\n"
            "    for batch in loader:\n"
            "        model(batch).backward()\n"
            "        optimizer.step()\n"
            '    writer.add_scalar("epoch", epoch, epoch)\n'
        ),
    ),
)
