"""The folder that `hotlap kernel new` writes: an operator that passes the check, to start from."""

import keyword
from pathlib import Path

from hotlap.core.errors import UsageError

OPERATOR = '''"""{name}: x * sigmoid(x), until you write your own formula.

Check and race it: hotlap kernel check {name}.py
"""

import ctypes
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import torch

HERE = Path(__file__).parent
DTYPES = (torch.float32,)


def reference(x):
    """The formula in plain PyTorch; it is called in float64, too."""
    return x * torch.sigmoid(x)


def forward(x):
    """On a GPU through Triton, on the CPU through C; PyTorch where neither can be had."""
    if x.is_cuda:
        from {name}_triton import launch

        return launch(x)
    if x.dtype != torch.float32 or library() is None:
        return reference(x)
    x = x.contiguous()
    out = torch.empty_like(x)
    library().forward(
        ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(out.data_ptr()), ctypes.c_long(x.numel())
    )
    return out


def backward(grad, x):
    """The gradient of each argument; give it a kernel of its own when it matters."""
    s = torch.sigmoid(x)
    return grad * s * (1 + x * (1 - s))


kernel = (forward, backward)


@cache
def library():
    """Compile {name}.c; None without a compiler."""
    target = Path(tempfile.mkdtemp()) / "{name}.so"
    compiler = os.environ.get("CC", "cc")
    flags = ["-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC"]
    try:
        command = [compiler, *flags, str(HERE / "{name}.c"), "-o", str(target), "-lm"]
        subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return ctypes.CDLL(str(target))
'''

C = """#include <math.h>

void forward(const float *restrict x, float *restrict y, long count) {
  for (long i = 0; i < count; i++) y[i] = (float)(x[i] / (1.0 + exp(-(double)x[i])));
}
"""

TRITON = '''"""The Triton kernel of {name}."""

import torch
import triton
import triton.language as tl


@triton.jit
def _forward(x_at, out_at, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    x = tl.load(x_at + at, inside, other=0.0).to(tl.float32)
    y = x / (1.0 + tl.exp(-x))
    tl.store(out_at + at, y.to(out_at.dtype.element_ty), inside)


def launch(x):
    """One program for each block of 1024 elements."""
    x = x.contiguous()
    out = torch.empty_like(x)
    if x.numel():
        _forward[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out
'''

CUDA = """// {name} in CUDA C++, an alternative to Triton. Load it from {name}.py with
//   torch.utils.cpp_extension.load("{name}", ["{name}.cu"]).forward
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

__global__ void kernel(const float *x, float *y, long count) {{
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < count) y[i] = x[i] / (1.0f + expf(-x[i]));
}}

torch::Tensor forward(torch::Tensor x) {{
  TORCH_CHECK(x.is_cuda() && x.scalar_type() == torch::kFloat, "float32 on CUDA");
  x = x.contiguous();
  auto y = torch::empty_like(x);
  long count = x.numel();
  if (count)
    kernel<<<(count + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), count);
  return y;
}}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("forward", &forward); }}
"""

TEST = '''"""The whole check as a test."""

import json
import subprocess
import sys
from pathlib import Path


def test_{name}_is_correct():
    file = Path(__file__).with_name("{name}.py")
    command = [sys.executable, "-m", "hotlap", "kernel", "check", str(file), "--race", "none"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True)
    assert done.returncode == 0, json.loads(done.stdout)["outcomes"]
'''

BENCHMARK = '''"""Race {name} against its reference, eager and compiled, over a grid of shapes."""

import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    file = Path(__file__).with_name("{name}.py")
    sys.exit(subprocess.call([sys.executable, "-m", "hotlap", "kernel", "check", str(file)]))
'''

FILES = {
    "{name}.py": OPERATOR,
    "{name}.c": C.replace("{", "{{").replace("}", "}}"),
    "{name}_triton.py": TRITON,
    "{name}.cu": CUDA,
    "test_{name}.py": TEST,
    "benchmark.py": BENCHMARK,
}


def write(name: str, parent: Path) -> Path:
    """Write the folder `name` in `parent`.

    Raises:
        UsageError: the name is no Python name, or the folder is there already.
    """
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"{name!r} cannot be the name of a Python module", "use letters and _")
    folder = parent / name
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise UsageError(f"{folder} exists already", "choose another name or --in DIR") from None
    for file, text in FILES.items():
        (folder / file.format(name=name)).write_text(text.format(name=name))
    return folder
