"""Fused pointwise operations: torch.compile."""

from hotlap.core.move import Choice, Wrap
from hotlap.core.needs import MODEL, NOT_COMPILED
from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Fuse chains of pointwise operations with torch.compile",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.MOVE,),
    switchable=True,
    inference=True,
    why=(
        "Each activation, scaling or normalisation reads and writes all its data. Compiled into "
        "one kernel, a chain of them goes through memory once, and Python is out of the way."
    ),
    changes=(
        "Fused kernels round in other places. Compiling takes seconds to minutes at the first "
        "steps and for each new input shape. Under hotlap random numbers (dropout) stay those of "
        "the plain run: torch._inductor.config.fallback_random is set."
    ),
    avoid=(
        "Leave it off for short runs that never earn the compile time back, for shapes that keep "
        "changing, and for models full of data-dependent Python."
    ),
    claims=(
        Claim("gelu up to 4x (TorchScript)", "A0: '18 tips' article, 2022"),
        Claim(
            "9.8 -> 6.6 s on a V100, 13.94 -> 13.91 s on a T4 (TorchScript)",
            "A1: NVIDIA tuning-guide walk-through",
        ),
        Claim(
            "gelu 1.2 ms -> 0.4 ms scripted -> 0.1 ms in CUDA",
            "A2: 'six techniques' article",
        ),
    ),
    needs=(
        MODEL,
        Need("compiler", "inductor lacks its compiler (C++ on the CPU, Triton on CUDA)"),
        NOT_COMPILED,
    ),
    conflicts=("activation_checkpoint", "cuda_graphs", "int8_inference"),
    moves=(
        Wrap(
            "root call",
            "hotlap.seam.compiled:compiled",
            Choice("mode", "compile_modes"),
            edit="hotlap.source.edits.compiled:compiled",
        ),
    ),
    symptom=Symptom(
        phases=("forward", "backward"),
        says="torch.compile, which fuses pointwise operations",
        place="model",
        gives=0.5,
        sure=False,
    ),
    patterns=(
        Pattern(
            id="uncompiled_model",
            says="this loop trains a model that nothing compiles",
            remedy="race fused_pointwise: model = torch.compile(model)",
            ignore="the run is shorter than the compilation, or shapes change at each step",
            check="hotlap.source.checks.absent:uncompiled_model",
            hint=True,
            absent=True,
        ),
        Pattern(
            id="pointwise_by_hand",
            says="a formula of several operations, each of which reads and writes all the data",
            remedy="use torch's own (F.gelu, F.silu, F.layer_norm, F.rms_norm), or torch.compile",
            ignore="the model is compiled anyway",
            check="hotlap.source.checks.elementwise:pointwise_by_hand",
            hint=True,
            phases=("forward", "backward"),
            differentiated=True,
        ),
        Pattern(
            id="compiled_in_loop",
            says="the model is wrapped for compilation anew each time, and may compile anew",
            remedy="compile once, before the loop",
            ignore="each round compiles another model",
            check="hotlap.source.checks.compiling:compiled_in_loop",
            phases=("forward", "other"),
        ),
    ),
    examples=(
        Example(
            "import torch\n"
            "\n"
            "model = Net().to(device)\n"
            "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n",
            "import torch\n"
            "\n"
            "model = Net().to(device)\n"
            "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
            "model = torch.compile(model)\n",
        ),
        Example(
            "import torch\n\nmodel = torch.compile(Net().to(device))\n",
        ),
    ),
    grants=(("compiled", True),),
)
