"""Memory that the CUDA allocator holds and nothing uses."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Fragmentation:
    """Bytes that the allocator has reserved, those in use, and the most there was of both.

    `lost` is the share of the peak reservation that was never in use at once.
    """

    reserved: int
    allocated: int
    peak_reserved: int
    peak_allocated: int
    expandable: bool

    @property
    def lost(self) -> float:
        """From 0, nothing, to 1."""
        return 1 - self.peak_allocated / self.peak_reserved if self.peak_reserved else 0.0

    def advice(self) -> str:
        """What to do about it; empty if there is no need."""
        if self.lost < 0.2:
            return ""
        if not self.expandable:
            return "set PYTORCH_ALLOC_CONF=expandable_segments:True before the program starts"
        return "allocations of many sizes come and go: pad inputs to a few lengths"


def fragmentation(device: torch.device | int | None = None) -> Fragmentation | None:
    """Of a CUDA device, since the process began; None without one."""
    if not torch.cuda.is_available():
        return None
    import os

    settings = "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"
    words = " ".join(os.environ.get(name, "") for name in settings)
    return Fragmentation(
        torch.cuda.memory_reserved(device),
        torch.cuda.memory_allocated(device),
        torch.cuda.max_memory_reserved(device),
        torch.cuda.max_memory_allocated(device),
        "expandable_segments:True" in words,
    )
