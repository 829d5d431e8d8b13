"""Results read back to the CPU in the step."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Leave results on the device until they are needed",
    group=Group.TRANSFER,
    numerics=Numerics.EXACT,
    how=(How.ADVICE,),
    inference=True,
    why=(
        "The CPU queues kernels ahead of the GPU. Reading a value back (.item(), .cpu(), print,"
        " if tensor) waits until everything queued has run; then the GPU waits for the CPU to "
        "queue again."
    ),
    changes=(
        "Nothing but when a value is read. Sum it on the device, detached, and read the sum "
        "every n steps."
    ),
    avoid=(
        "Read values at once while looking for a NaN, or where the next step truly depends on "
        "the value."
    ),
    claims=(
        Claim("named without a figure", "A0: '18 tips' article, 2022"),
        Claim("named without a figure", "A3: data-loading article"),
        Claim("named without a figure", "A4: '17 tips' article"),
    ),
    needs=(
        Need("cuda", "no GPU to wait for"),
        Need("sync_calls", "nothing in the step waits for the GPU"),
    ),
    symptom=Symptom(
        phases=("other",),
        says=(
            "the step waits for the GPU: .item(), .cpu(), .tolist(), print or `if tensor`; collect "
            "on the device and read every n steps"
        ),
        place="sync",
    ),
    patterns=(
        Pattern(
            id="item_in_step",
            says="reading a number at every step makes the CPU wait for the device",
            remedy="add up loss.detach() on the device and read it every n steps",
            ignore="the value decides what the next step does",
            check="hotlap.source.checks.syncing:item_in_step",
            hint=True,
        ),
        Pattern(
            id="cpu_in_step",
            says="copying a result to the host at every step makes the CPU wait for the device",
            remedy="keep it on the device, detached, and copy it once an epoch",
            ignore="the host needs the result at once, as an environment needs its actions",
            check="hotlap.source.checks.syncing:cpu_in_step",
            hint=True,
        ),
        Pattern(
            id="tensor_printed",
            says="turning a tensor of the device into text at every step makes the CPU wait",
            remedy="print and log every n steps",
            ignore="a step takes seconds, so that waiting once costs nothing",
            check="hotlap.source.checks.printing:tensor_printed",
            hint=True,
        ),
        Pattern(
            id="tensor_as_condition",
            says="a branch on a tensor makes the CPU wait for the device",
            remedy="torch.where or masks on the device, or test every n steps",
            ignore="the branch saves more work than the wait costs",
            check="hotlap.source.checks.syncing:tensor_as_condition",
            hint=True,
        ),
        Pattern(
            id="nonzero_in_step",
            says="the size of the result depends on the data, so the CPU waits for the device",
            remedy="keep the mask: torch.where(mask, a, b), or multiply by it",
            ignore="few elements are kept, and what follows is expensive",
            check="hotlap.source.checks.syncing:nonzero_in_step",
            hint=True,
        ),
        Pattern(
            id="synchronize_in_step",
            says="each step waits until the device has done all its work",
            remedy="drop it; to take times, synchronise every n steps or record CUDA events",
            ignore="times are taken, and the run is a benchmark",
            check="hotlap.source.checks.devices:synchronize_in_step",
        ),
    ),
    examples=(
        Example(
            "for images, labels in loader:\n"
            "    loss = criterion(model(images), labels)\n"
            "    loss.backward()\n"
            "    optimizer.step()\n"
            "    running += loss.item()\n",
            "for images, labels in loader:\n"
            "    loss = criterion(model(images), labels)\n"
            "    loss.backward()\n"
            "    optimizer.step()\n"
            "    running += loss.detach()\n",
        ),
        Example(
            "for images, labels in loader:\n"
            "    loss = criterion(model(images), labels)\n"
            "    loss.backward()\n"
            "    optimizer.step()\n"
            "    print(loss)\n",
            "for step, (images, labels) in enumerate(loader):\n"
            "    loss = criterion(model(images), labels)\n"
            "    loss.backward()\n"
            "    optimizer.step()\n"
            "    if step % 100 == 0:\n"
            "        print(loss)\n",
        ),
        Example(
            "for images, labels in loader:\n"
            "    loss = criterion(model(images), labels)\n"
            "    loss.backward()\n"
            "    optimizer.step()\n"
            "print(loss.item())\n",
        ),
        Example(
            "for step, (images, labels) in enumerate(loader):\n"
            "    loss = criterion(model(images), labels)\n"
            "    loss.backward()\n"
            "    optimizer.step()\n"
            "    if step % 100 == 0:\n"
            "        print(loss.item())\n",
        ),
    ),
)
