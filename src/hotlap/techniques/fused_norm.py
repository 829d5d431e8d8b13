"""Layer norm and RMS norm in C or Triton."""

from hotlap.core.move import Swap
from hotlap.core.needs import measured_kernel
from hotlap.core.technique import Claim, Example, Need

technique = measured_kernel(
    "layer norm and RMS norm",
    says="norms",
    called=Need("calls_norm", "neither layer_norm nor rms_norm of torch.nn.functional is called"),
    claim=Claim("goes beyond the articles", "Liger Kernel, 2024, section 3.2"),
    moves=(
        Swap(
            ("torch.nn.functional.layer_norm",),
            "hotlap.kernels.swaps:layer_norm",
            serves="hotlap.kernels.swaps:serves_layer_norm",
        ),
        Swap(
            ("torch.nn.functional.rms_norm",),
            "hotlap.kernels.swaps:rms_norm",
            serves="hotlap.kernels.swaps:serves_rms_norm",
        ),
    ),
    examples=(
        Example(
            "import torch\n\ny = torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, 1e-6)\n",
            "import torch\nfrom hotlap.kernels import rms_norm\n\ny = rms_norm(x, weight, 1e-6)\n",
        ),
        Example("import torch\n\ny = torch.nn.functional.batch_norm(x, mean, variance)\n"),
    ),
)
