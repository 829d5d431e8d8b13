"""GELU in C or Triton."""

from hotlap.core.move import Swap
from hotlap.core.needs import measured_kernel
from hotlap.core.technique import Claim, Example, Need

technique = measured_kernel(
    "GELU",
    says="gelu",
    called=Need("calls_gelu", "torch.nn.functional.gelu is not called"),
    claim=Claim("gelu 1.2 ms -> 0.1 ms in CUDA", "A2: 'six techniques' article"),
    moves=(
        Swap(
            ("torch.nn.functional.gelu",),
            "hotlap.kernels.swaps:gelu",
            serves="hotlap.kernels.swaps:serves_gelu",
            written="hotlap.kernels.gelu",
        ),
    ),
    examples=(
        Example(
            "import torch\n\ny = torch.nn.functional.gelu(x)\n",
            "import torch\nfrom hotlap.kernels import gelu\n\ny = gelu(x)\n",
        ),
        Example("import torch\n\ny = torch.nn.functional.relu(x)\n"),
    ),
)
