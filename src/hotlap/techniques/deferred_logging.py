"""Numbers for the log, read from the device a step later."""

from hotlap.core.move import Wrap
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Read numbers that are only printed a step later",
    group=Group.TRANSFER,
    numerics=Numerics.EXACT,
    how=(How.MOVE,),
    inference=True,
    why=(
        "loss.item() makes the CPU wait until the GPU has done all that is queued; then the GPU "
        "waits for the CPU to queue again. Where the source shows that the number is only printed, "
        "its copy to the CPU is queued like any other work, and the line is written when the copy "
        "has arrived, at the latest a step later."
    ),
    changes=(
        "When a line is written, not what it says: the same text in the same order, and a log "
        "record or a scalar has the time of its call. Only numbers that reach nothing but print to "
        "the terminal (or where that leads), the logging module or SummaryWriter.add_scalar are "
        "read later: directly, in an f-string or str.format, through + - * / and through local "
        "variables. A number that is compared, returned, stored, handed to another function or to "
        "a progress bar is read at once. What waits is written before the program writes anything "
        "else to its output, reads its log, asks for input, starts a program, forks, fails or "
        "ends. An error of the device is raised where the line is written, and times that the "
        "program takes no longer hold the wait."
    ),
    avoid=(
        "Leave it off while looking for an error of the device or measuring times, where code in C "
        "writes to the same output, and where the lines of the last step must survive kill -9."
    ),
    claims=(
        Claim("named without a figure", "A0: '18 tips' article, 2022"),
        Claim("named without a figure", "A4: '17 tips' article"),
    ),
    needs=(
        Need("cuda", "no GPU to wait for"),
        Need("sync_calls", "nothing in the step waits for the GPU"),
    ),
    moves=(Wrap("tensor", "hotlap.seam.deferred_logging:deferred_logging"),),
    symptom=Symptom(
        phases=("other",),
        says="the step waits for the GPU to print a number",
        place="sync",
        sure=False,
    ),
    examples=(
        Example(
            "for images, labels in loader:\n"
            "    loss = criterion(model(images), labels)\n"
            "    loss.backward()\n"
            "    optimizer.step()\n"
            '    print(f"loss {loss.item():.4f}")\n',
            "last = None\n"
            "for images, labels in loader:\n"
            "    loss = criterion(model(images), labels)\n"
            "    loss.backward()\n"
            "    optimizer.step()\n"
            "    if last is not None:\n"
            '        print(f"loss {last.item():.4f}")\n'
            '    last = loss.detach().to("cpu", non_blocking=True)\n',
        ),
        Example(
            "for images, labels in loader:\n"
            "    loss = criterion(model(images), labels)\n"
            "    if loss.item() > 10.0:\n"
            "        break\n"
            "    loss.backward()\n"
            "    optimizer.step()\n",
        ),
    ),
)
