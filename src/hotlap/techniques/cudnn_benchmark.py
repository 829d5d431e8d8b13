"""cuDNN benchmark mode: the fastest convolution is found by trying."""

from hotlap.core.move import Flag
from hotlap.core.needs import CUDA
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
    title="Let cuDNN try its convolutions and keep the fastest",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.MOVE,),
    switchable=True,
    inference=True,
    why=(
        "cuDNN has several algorithms for each convolution and picks one by rule. In benchmark "
        "mode it times them once for each input shape and keeps the fastest."
    ),
    changes=(
        "Another algorithm sums in another order. The choice depends on timings, so two runs may "
        "choose differently."
    ),
    avoid=(
        "Leave it off when input shapes keep changing (each new shape is timed again) and when "
        "runs must repeat bit by bit."
    ),
    claims=(
        Claim("1.27x to 1.70x", "A0: '18 tips' article, 2022"),
        Claim("+70 % forward, +27 % forward and backward", "A4: '17 tips' article"),
        Claim("MNIST epoch 14.73 -> 14.47 s", "A1: NVIDIA tuning-guide walk-through"),
    ),
    needs=(
        CUDA,
        Need("conv4d", "the model has no 2-D convolutions"),
        Need("!cudnn_benchmark_on", "benchmark mode is already on"),
        Need("!cudnn_deterministic", "the script asks for deterministic cuDNN algorithms"),
    ),
    moves=(
        Flag(
            "torch.backends.cudnn.benchmark",
            True,
            unless=(
                ("torch.backends.cudnn.deterministic", True),
                ("torch.use_deterministic_algorithms", True),
            ),
        ),
    ),
    symptom=Symptom(
        phases=("forward", "backward"),
        says="convolution algorithms that cuDNN has timed",
        place="model",
        gives=0.4,
        sure=False,
        whole=False,
        work=Work.KERNELS,
    ),
    patterns=(
        Pattern(
            id="untuned_convolutions",
            says="cuDNN chooses its convolution algorithms by rule, not by measurement",
            remedy="race cudnn_benchmark: torch.backends.cudnn.benchmark = True",
            ignore="shapes change at each step, or results must be the same from run to run",
            check="hotlap.source.checks.absent:untuned_convolutions",
            hint=True,
            absent=True,
        ),
        Pattern(
            id="benchmark_contradiction",
            says="deterministic algorithms are asked for: benchmark mode then times them in vain",
            remedy="keep one of the two",
            ignore="never: one of the two has no effect",
            check="hotlap.source.checks.backends:benchmark_contradiction",
            phases=("forward", "backward"),
        ),
        Pattern(
            id="cudnn_off",
            says="without cuDNN, convolutions and recurrent layers run on slower kernels",
            remedy="leave torch.backends.cudnn.enabled alone",
            ignore="a fault of cuDNN is being worked around",
            check="hotlap.source.checks.backends:cudnn_off",
            phases=("forward", "backward"),
        ),
    ),
    examples=(
        Example(
            "import torch\n\nmodel = Net().cuda()\n",
            "import torch\n\ntorch.backends.cudnn.benchmark = True\n\nmodel = Net().cuda()\n",
        ),
        Example(
            "import torch\n\ntorch.backends.cudnn.deterministic = True\n",
        ),
    ),
    grants=(("cudnn_benchmark_on", True),),
)
