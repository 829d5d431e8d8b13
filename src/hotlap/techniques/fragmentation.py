"""Fragmentation: GPU memory that is reserved but cannot be used."""

from hotlap.core.move import Env
from hotlap.core.needs import CUDA
from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Let GPU memory segments grow",
    group=Group.MEMORY,
    numerics=Numerics.EXACT,
    how=(How.MOVE, How.ADVICE),
    inference=True,
    why=(
        "Where tensor sizes vary, the allocator's fixed segments break into holes: memory is "
        "reserved that no tensor fits. Expandable segments grow instead. Calling empty_cache() in "
        "the loop fights the same holes, but waits for the GPU and allocates anew every time."
    ),
    changes="Nothing but where tensors lie in GPU memory.",
    avoid=(
        "Leave it off when CUDA tensors are shared between processes, and where the allocator is "
        "configured already."
    ),
    claims=(Claim("named without a figure", "A2: 'six techniques' article"),),
    needs=(
        CUDA,
        Need("!alloc_conf", "the environment already configures the CUDA allocator"),
        Need("fragmented", "hardly more CUDA memory is reserved than allocated"),
    ),
    moves=(
        Env(
            "PYTORCH_ALLOC_CONF",
            "expandable_segments:True",
            edit="hotlap.source.edits.removals:out_of_the_step",
        ),
    ),
    symptom=Symptom(
        phases=("forward", "backward"),
        says="much more GPU memory is reserved than allocated",
        place="allocator",
        gives=0.1,
        sure=False,
        whole=False,
    ),
    saves_memory=True,
    patterns=(
        Pattern(
            id="cache_emptied_in_step",
            says="emptying the cache waits for the device, and each step allocates anew",
            remedy="drop it; PYTORCH_ALLOC_CONF=expandable_segments:True fights fragmentation",
            ignore="another process on the same device needs the memory",
            check="hotlap.source.checks.devices:cache_emptied_in_step",
        ),
    ),
    examples=(
        Example(
            "import torch\n"
            "\n"
            "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
            "for batch in loader:\n"
            "    model(batch).mean().backward()\n"
            "    optimizer.step()\n"
            "    torch.cuda.empty_cache()\n",
            "import torch\n"
            "\n"
            "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
            "for batch in loader:\n"
            "    model(batch).mean().backward()\n"
            "    optimizer.step()\n",
        ),
        Example(
            "import torch\n\ntrain(model)\ntorch.cuda.empty_cache()\nevaluate(model)\n",
        ),
    ),
)
