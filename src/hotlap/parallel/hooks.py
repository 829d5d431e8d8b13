"""Communication hooks for DistributedDataParallel."""

from collections.abc import Callable

import torch
import torch.distributed as dist

Hook = Callable[..., torch.futures.Future[torch.Tensor]]


def narrowed(dtype: torch.dtype) -> Hook:
    """Reduce float32 gradients in `dtype`, bfloat16 or float16: half the bytes on the network.

    `model.register_comm_hook(group, narrowed(torch.bfloat16))`, with a process group or None for
    the default one. The mean over ranks comes back as float32; buckets of other types are reduced
    as they are. Works where torch's own `bf16_compress_hook` refuses: in builds without CUDA.

    Raises:
        ValueError: `dtype` is neither of the two.
    """
    if dtype not in (torch.bfloat16, torch.float16):
        raise ValueError(f"gradients can be reduced in bfloat16 or float16, not in {dtype}")

    def hook(
        group: torch.distributed.ProcessGroup,
        bucket: dist.GradBucket,  # type: ignore[name-defined]  # torch checks this very annotation
    ) -> torch.futures.Future[torch.Tensor]:
        gradients: torch.Tensor = bucket.buffer()
        gradients.div_(dist.get_world_size(group))  # first: a sum of float16 overflows
        sent = gradients.to(dtype) if gradients.dtype == torch.float32 else gradients
        work = dist.all_reduce(sent, group=group, async_op=True)
        assert work is not None  # as it is asynchronous

        def widened(done: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
            return gradients.copy_(done.value()[0])

        future: torch.futures.Future[torch.Tensor] = work.get_future().then(widened)
        return future

    return hook
