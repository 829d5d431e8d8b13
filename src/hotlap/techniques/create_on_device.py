"""Tensors made where they are used."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Make tensors on the device",
    group=Group.TRANSFER,
    numerics=Numerics.EXACT,
    how=(How.ADVICE,),
    inference=True,
    why=(
        "torch.zeros(...).to(device) fills memory on the CPU, copies it over the bus and waits "
        "for the copy. torch.zeros(..., device=device) fills it where it is used."
    ),
    changes=(
        "Nothing for constants. Random numbers are drawn by the generator of the device: "
        "another sequence from the same seed."
    ),
    avoid=("Leave it where the same random numbers are wanted on every device."),
    claims=(
        Claim("named without a figure", "A0: '18 tips' article, 2022"),
        Claim("named without a figure", "A4: '17 tips' article"),
    ),
    patterns=(
        Pattern(
            id="moved_after_creation",
            says="the tensor is made on the CPU and then copied to the device",
            remedy="pass device= where it is made",
            ignore="the tensor is made once, or its values must come from the CPU's random numbers",
            check="hotlap.source.checks.copies:moved_after_creation",
            hint=True,
            phases=("copy", "other", "forward"),
        ),
        Pattern(
            id="model_moved_in_step",
            says="each step sends the model to the device where it already is",
            remedy="move it once, before the optimizer is made",
            ignore="the model is moved away on purpose between steps, to save memory",
            check="hotlap.source.checks.devices:model_moved_in_step",
            phases=("copy", "other"),
        ),
    ),
    examples=(
        Example(
            "for x in loader:\n    mask = torch.zeros(64, 64).to(device)\n",
            "for x in loader:\n    mask = torch.zeros(64, 64, device=device)\n",
        ),
        Example(
            "while True:\n    noise = torch.randn(64, 100).cuda()\n",
            'while True:\n    noise = torch.randn(64, 100, device="cuda")\n',
        ),
        Example(
            "mask = torch.zeros(64, 64).to(device)\n",
        ),
        Example(
            "mask = torch.zeros(64, 64).to(torch.bool)\n",
        ),
        Example(
            "mask = torch.zeros_like(images).to(device)\n",
        ),
    ),
)
