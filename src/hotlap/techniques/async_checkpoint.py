"""Checkpoints and logs that no step waits for."""

from hotlap.core.move import Wrap
from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Symptom, Technique

technique = Technique(
    title="Write checkpoints and logs beside the step",
    group=Group.OPTIMIZER,
    numerics=Numerics.EXACT,
    how=(How.MOVE,),
    why=(
        "torch.save copies every tensor to the CPU, pickles it and writes it while the device "
        "stands still. Here the call pickles the object and copies the tensors in memory; a thread "
        "writes the file while training goes on. Only saves to a path are written so; a file "
        "object is written by the call."
    ),
    changes=(
        "Nothing in the training, and not a byte of the files. A file is written under another "
        "name and renamed, so that a process that is killed leaves the last whole one. Before the "
        "program opens, lists, renames or removes what leads to it, starts a program or ends, the "
        "file is whole. Memory for one copy of what is being saved is needed and kept for the next "
        "save, for at most four saves in a row and a quarter of the memory that is free, and disk "
        "for the old file and the new one. Another program of the machine sees the new file a "
        "little later."
    ),
    avoid=(
        "Leave it off where another program waits for the file, where code in C reads it in the "
        "same process, where memory is short, or where training keeps all cores busy and the disk "
        "is fast: the thread then takes from the training what the call saves."
    ),
    claims=(Claim("goes beyond the articles", "PyTorch documentation, distributed.checkpoint"),),
    moves=(Wrap("save", "hotlap.seam.async_checkpoint:async_checkpoint"),),
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
            ignore="checkpoints are minutes apart",
            check="hotlap.source.checks.saving:checkpoint_in_step",
            hint=True,
            phases=("saving", "other"),
        ),
        Pattern(
            id="fsync_in_training",
            says="the training waits until the disk has written everything",
            remedy="write to a temporary file and os.replace it; sync outside of the steps",
            ignore="each step's record must survive a power failure",
            check="hotlap.source.checks.saving:fsync_in_training",
            phases=("saving", "other"),
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
    whole_epochs=True,
)
