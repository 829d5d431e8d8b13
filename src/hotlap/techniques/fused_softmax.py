"""Softmax in C or Triton."""

from hotlap.core.move import Swap
from hotlap.core.needs import measured_kernel
from hotlap.core.technique import Claim, Example, Need

technique = measured_kernel(
    "softmax",
    says="softmax",
    called=Need("calls_softmax", "torch.nn.functional.softmax is not called"),
    claim=Claim("softmax as one fused kernel", "A2: 'six techniques' article"),
    moves=(
        Swap(
            ("torch.nn.functional.softmax",),
            "hotlap.kernels.swaps:softmax",
            serves="hotlap.kernels.swaps:serves_softmax",
            written="hotlap.kernels.softmax",
        ),
    ),
    examples=(
        Example(
            "import torch\n\ny = torch.nn.functional.softmax(x, dim=-1)\n",
            "import torch\nfrom hotlap.kernels import softmax\n\ny = softmax(x, dim=-1)\n",
        ),
        Example("import torch\n\ny = torch.nn.functional.log_softmax(x, dim=-1)\n"),
    ),
)
