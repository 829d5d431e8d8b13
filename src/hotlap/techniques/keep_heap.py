"""Freed memory that stays in the process."""

from hotlap.core.move import Call
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Keep freed memory in the process",
    group=Group.MEMORY,
    numerics=Numerics.EXACT,
    how=(How.MOVE,),
    inference=True,
    why=(
        "glibc takes large blocks from the kernel one by one and gives them back when they are "
        "freed. Buffers that each step allocates anew on the CPU (activations, gradients, decoded "
        "samples) are then cleared page by page on their first touch, again and again."
    ),
    changes="Nothing but where buffers lie; the process keeps memory that it freed.",
    avoid="Leave it off where other programs need the memory that this one frees.",
    claims=(Claim("goes beyond the articles", "mallopt(3), Linux manual pages"),),
    needs=(Need("page_faults", "too few page faults were seen in its steps"),),
    moves=(Call("hotlap.memory.keep_heap", 2**30, "hotlap.memory.heap_kept"),),
    symptom=Symptom(
        phases=("faults",),
        says="freed memory kept by malloc, not returned to the kernel",
        place="model",
        sure=False,
        likely=1.0,
    ),
    examples=(
        Example(
            "import torch\n\nmodel = Net()\n",
            "import torch\n"
            "from hotlap.memory import keep_heap\n"
            "\n"
            "keep_heap(1073741824)\n"
            "\n"
            "model = Net()\n",
        ),
        Example(
            "import torch\nfrom hotlap.memory import keep_heap\n\nkeep_heap(1073741824)\n",
        ),
    ),
)
