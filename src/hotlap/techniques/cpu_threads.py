"""CPU threads within an operation."""

from hotlap.core.move import Call, Choice
from hotlap.core.needs import MODEL
from hotlap.core.technique import (
    Claim,
    Example,
    Group,
    How,
    Need,
    Numerics,
    Symptom,
    Technique,
    Work,
)

technique = Technique(
    title="Set the number of CPU threads",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.MOVE,),
    switchable=True,
    inference=True,
    why=(
        "torch uses a thread for each physical core. Small operations spend longer waking threads "
        "than computing, hardware threads share one core's units, and threads fight loader "
        "workers for the same cores."
    ),
    changes="Sums are split among another number of threads, so they round differently.",
    avoid="Leave it off when the machine is shared and its load changes.",
    load_dependent=True,
    claims=(Claim("goes beyond the articles", "PyTorch documentation, CPU threading"),),
    needs=(
        MODEL,
        Need("!one_thread_fits", "each process has one thread, and the cores allow no more"),
    ),
    moves=(
        Call(
            "torch.set_num_threads",
            Choice("threads", "thread_counts"),
            "torch.get_num_threads",
            "OMP_NUM_THREADS",
        ),
    ),
    symptom=Symptom(
        # Threads that wait for a core slow down every phase, so that no share bounds the gain.
        phases=("forward", "backward", "optimizer", "copy", "data", "evaluation", "other"),
        says="another number of CPU threads",
        place="model",
        gives=0.5,
        sure=False,
        work=Work.LAUNCHES,
    ),
    examples=(
        Example(
            "import torch\n\nmodel = Net()\n",
            "import torch\n\ntorch.set_num_threads(2)\n\nmodel = Net()\n",
        ),
        Example(
            "import torch\n\ntorch.set_num_threads(1)\n",
        ),
    ),
)
