"""Mixed precision: matrix products in 16 bits under autocast."""

from hotlap.core.move import Choice, Wrap
from hotlap.core.needs import FLOAT32_MODEL, MODEL
from hotlap.core.pattern import Pattern
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
    title="Compute in 16 bits under autocast",
    group=Group.COMPUTE,
    numerics=Numerics.PRECISION,
    how=(How.MOVE, How.PART),
    switchable=True,
    inference=True,
    why=(
        "Tensor cores (on CPUs: AMX and AVX-512 BF16) multiply 16-bit matrices several times "
        "faster than float32, and activations take half the memory and bandwidth. Weights, "
        "gradients, reductions and the optimizer stay in float32."
    ),
    changes=(
        "bfloat16 keeps float32's range with 8 bits of precision. float16 has 11 bits but a small "
        "range: the loss is scaled by a GradScaler, gradients are unscaled before clipping, and "
        "steps with infinities are skipped. The model's outputs are returned as float32."
    ),
    avoid=(
        "Leave it off for models that are not dominated by matrix products or convolutions, on "
        "hardware without 16-bit units, where the script casts by hand, and for float16 where it "
        "reads or edits gradients itself: it would see them scaled."
    ),
    claims=(
        Claim("2x typical, up to 5.5x", "A4: '17 tips' article"),
        Claim("2.75x and -37 % memory on BERT", "A0: '18 tips' article, 2022"),
        Claim("ResNet-50 58 h -> 21 h, top-1 76.2 -> 76.1", "A2: 'six techniques' article"),
        Claim(
            "MNIST epoch 14.73 -> 14.21 s, but 10.01 -> 11.97 s on a T4",
            "A1: NVIDIA tuning-guide walk-through",
        ),
    ),
    needs=(
        MODEL,
        FLOAT32_MODEL,
        Need("!autocast_on", "autocast is already on"),
        Need("!scaler_on", "the script scales its loss already"),
        Need("fast_half", "this processor has no 16-bit matrix units: 16 bits would be slower"),
    ),
    conflicts=("int8_inference",),
    moves=(
        Wrap(
            "root call",
            "hotlap.seam.precision:autocast",
            Choice("dtype", "autocast_dtypes"),
            edit="hotlap.source.edits.autocast:autocast",
        ),
        Wrap(
            "backward",
            "hotlap.seam.scaler:loss_scaling",
            edit="hotlap.source.edits.scaler:scaler",
        ),
    ),
    symptom=Symptom(
        phases=("forward", "backward"),
        says="matrix products and convolutions in a 16-bit type",
        place="model",
        gives=0.6,
        sure=False,
        work=Work.KERNELS,
    ),
    patterns=(
        Pattern(
            id="full_precision_training",
            says="this loop trains in float32 throughout",
            remedy="race mixed_precision: the forward pass under torch.autocast",
            ignore="the run is on a CPU without bfloat16, or needs the whole precision",
            check="hotlap.source.checks.absent:full_precision_training",
            hint=True,
            absent=True,
        ),
        Pattern(
            id="fp16_without_scaler",
            says="float16 without a scaler: small gradients become zero",
            remedy="use dtype=torch.bfloat16, or a torch.amp.GradScaler",
            ignore="the loss is scaled in another way that hotlap does not see",
            check="hotlap.source.checks.scaling:fp16_without_scaler",
            phases=("forward", "backward"),
        ),
        Pattern(
            id="autocast_around_backward",
            says="backward runs under autocast; it takes its types from the forward by itself",
            remedy="end the autocast block before backward()",
            ignore="never: backward takes its types from the forward",
            check="hotlap.source.checks.scaling:autocast_around_backward",
            phases=("backward",),
        ),
        Pattern(
            id="step_around_scaler",
            says="the optimizer steps on gradients that the scaler has multiplied or not checked",
            remedy="call scaler.step(optimizer), then scaler.update()",
            ignore="the scaler is disabled in every run",
            check="hotlap.source.checks.scaling:step_around_scaler",
            phases=("optimizer",),
        ),
        Pattern(
            id="deprecated_amp",
            says="deprecated: torch warns, and will take it away",
            remedy='use torch.amp: torch.autocast("cuda"), torch.amp.GradScaler("cuda")',
            ignore="an old torch without the new names must be supported",
            check="hotlap.source.checks.scaling:deprecated_amp",
        ),
    ),
    examples=(
        Example(
            "import torch\n"
            "\n"
            'model = Net().to("cuda")\n'
            "criterion = torch.nn.CrossEntropyLoss()\n"
            "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
            "for images, labels in loader:\n"
            '    outputs = model(images.to("cuda"))\n'
            '    loss = criterion(outputs, labels.to("cuda"))\n'
            "    optimizer.zero_grad()\n"
            "    loss.backward()\n"
            "    optimizer.step()\n",
            "import torch\n"
            "\n"
            'model = Net().to("cuda")\n'
            "criterion = torch.nn.CrossEntropyLoss()\n"
            "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
            "for images, labels in loader:\n"
            '    with torch.autocast("cuda", dtype=torch.bfloat16):\n'
            '        outputs = model(images.to("cuda"))\n'
            '        loss = criterion(outputs, labels.to("cuda"))\n'
            "    optimizer.zero_grad()\n"
            "    loss.backward()\n"
            "    optimizer.step()\n",
        ),
        Example(
            "import torch\n"
            "\n"
            'model = Net().to("cuda")\n'
            "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
            'with torch.autocast("cuda", dtype=torch.bfloat16):\n'
            "    outputs = model(images)\n",
        ),
    ),
    grants=(("autocast_on", True),),
)
