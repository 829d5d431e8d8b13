"""The Triton kernels without a GPU: interpreted for their values, compiled for their resources."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

triton = pytest.importorskip("triton")


def test_interpreted_kernels_are_within_two_units_in_the_last_place():
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(here / "interpreted.py")],
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "all within" in done.stdout


POINTERS = {
    "gelu": 2, "gelu_backward": 3, "swiglu": 3, "swiglu_backward": 5, "softmax": 2,
    "softmax_backward": 3, "norm": 6, "norm_backward": 7, "rotary": 4,
}  # fmt: skip
SCALARS = {"eps": "fp32", "sign": "fp32"}
FLAGS = {"TANH": False, "CENTRED": True, "RESIDUAL": True, "WEIGHT": True, "BIAS": True,
         "TOTAL": True, "BLOCK": 1024}  # fmt: skip


@pytest.mark.parametrize("architecture", [80, 90, 100])
@pytest.mark.parametrize("kernel", POINTERS)
def test_kernels_compile_ahead_of_time(kernel, architecture, tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from hotlap.kernels import triton_code

    function = getattr(triton_code, kernel)
    constants = {n: FLAGS[n] for n in function.arg_names if n in FLAGS}
    signature = {}
    for position, name in enumerate(function.arg_names):
        if name in constants:
            signature[name] = "constexpr"
        elif position < POINTERS[kernel]:
            wide = name in {"of_weight_at", "of_bias_at"}
            signature[name] = "*fp64" if wide else "*fp32"
        else:
            signature[name] = SCALARS.get(name, "i32")
    source = ASTSource(function, signature, constants)
    made = triton.compile(source, target=GPUTarget("cuda", architecture, 32))
    assert made.asm["cubin"]
    assert made.metadata.shared <= 48 << 10
    binary = tmp_path / "kernel.cubin"
    binary.write_bytes(made.asm["cubin"])
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    told = subprocess.run([tool, "-res-usage", binary], capture_output=True, text=True, check=True)
    usage = dict(re.findall(r"(REG|STACK|LOCAL):(\d+)", told.stdout))
    assert 0 < int(usage["REG"]) <= 255
    assert (usage["STACK"], usage["LOCAL"]) == ("0", "0"), "registers are spilled to memory"
