"""Checkpoints and logs that no step waits for."""

from hotlap.core.numerics import Numerics
from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Symptom, Technique

technique = Technique(
    title="Write checkpoints and logs beside the step",
    group=Group.OPTIMIZER,
    numerics=Numerics.EXACT,
    how=(How.ADVICE,),
    why=(
        "torch.save copies every tensor to the CPU, pickles it and writes it while the device "
        "stands still; fsync waits for the disk on top. Copied to host memory first, the state can "
        "be written by another thread or process while training goes on."
    ),
    changes=(
        "Nothing in the training. The newest checkpoint is on the disk a little later, so after a "
        "crash the one before it may be the last."
    ),
    avoid="Leave it where a checkpoint is rare or small against the steps in between.",
    claims=(Claim("goes beyond the articles", "PyTorch documentation, distributed.checkpoint"),),
    symptom=Symptom(
        phases=("saving",),
        says="files are written while training waits; save less often, or in another thread",
        place="save",
    ),
    patterns=(
        Pattern(
            id="checkpoint_in_step",
            says="the steps wait while this checkpoint is copied, pickled and written",
            remedy=(
                "save less often, or with torch.distributed.checkpoint.async_save, which writes in "
                "the background"
            ),
            check="hotlap.source.checks.saving:checkpoint_in_step",
            hint=True,
            phases=("saving", "rest"),
        ),
        Pattern(
            id="fsync_in_training",
            says="the training waits until the disk has written everything",
            remedy="write to a temporary file and os.replace it; sync outside of the steps",
            check="hotlap.source.checks.saving:fsync_in_training",
            phases=("saving", "rest"),
        ),
        Pattern(
            id="logging_in_step",
            says="each step writes a log",
            remedy="log every so many steps, and let the writer flush by itself",
            check="hotlap.source.checks.saving:logging_in_step",
            hint=True,
            phases=("rest", "saving"),
        ),
    ),
    examples=(
        Example(
            "import torch\n\n"
            "for step, batch in enumerate(loader):\n"
            "    model(batch).backward()\n"
            "    optimizer.step()\n"
            "    if step % 100 == 0:\n"
            '        torch.save(model.state_dict(), "last.pt")\n',
            "import torch\n"
            "import torch.distributed.checkpoint as dcp\n\n"
            "for step, batch in enumerate(loader):\n"
            "    model(batch).backward()\n"
            "    optimizer.step()\n"
            "    if step % 100 == 0:\n"
            '        writing = dcp.async_save(model.state_dict(), checkpoint_id="last")\n',
        ),
        Example(
            "import torch\n\n"
            "for epoch in range(10):\n"
            "    for batch in loader:\n"
            "        model(batch).backward()\n"
            "        optimizer.step()\n"
            '    torch.save(model.state_dict(), "last.pt")\n'
        ),
    ),
)
