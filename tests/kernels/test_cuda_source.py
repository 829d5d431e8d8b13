"""The CUDA C++ that `hotlap kernel new` writes is compiled, where there is an nvcc."""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hotlap.kernel_check.template import CUDA


def nvcc() -> str | None:
    """That of PyPI's nvidia-cuda-nvcc, or of the system."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec and spec.submodule_search_locations) or ():
        for found in Path(folder).glob("cu*/bin/nvcc"):
            return str(found)
    return shutil.which("nvcc")


@pytest.mark.skipif(nvcc() is None, reason="no nvcc: pip install nvidia-cuda-nvcc")
@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100"])
def test_the_kernel_of_the_template_compiles_without_spills(target: str, tmp_path: Path) -> None:
    source = CUDA.format(name="mine")
    (kernel,) = re.findall(r"^__global__ .*?^}$", source, re.DOTALL | re.MULTILINE)
    (launch,) = re.findall(r"kernel<<<(.*?), at::cuda", source)
    host = (
        f"void start(const float *x, float *y, long count) {{ kernel<<<{launch}>>>(x, y, count); }}"
    )
    (tmp_path / "mine.cu").write_text(f"{kernel}\n{host}\n")
    done = subprocess.run(
        [str(nvcc()), "-cubin", f"-arch={target}", "-Xptxas", "-v", "-Werror", "all-warnings",
         "mine.cu", "-o", "mine.cubin"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "0 bytes spill stores" in done.stderr
    assert (tmp_path / "mine.cubin").read_bytes().startswith(b"\x7fELF")
