"""When ranks exchange gradients: only with the last micro-batch of a step."""

import torch
from torch import nn


class GradientSync:
    """Switches the gradient exchange of the DDP and FSDP2 modules in a model on and off.

    `needed` is False for a model on one device: nothing is to be switched then.
    """

    def __init__(self, model: nn.Module) -> None:
        self._ddp: list[nn.parallel.DistributedDataParallel] = []
        self._fsdp: list[torch.distributed.fsdp.FSDPModule] = []
        self._now = True
        self._exchanged = False
        if torch.distributed.is_available():
            self._find(model)
        self.needed = bool(self._ddp or self._fsdp)

    def _find(self, model: nn.Module) -> None:
        from torch.distributed.fsdp import FSDPModule

        for module in model.modules():
            if isinstance(module, nn.parallel.DistributedDataParallel):
                self._ddp.append(module)
            elif isinstance(module, FSDPModule):
                self._fsdp.append(module)

    def switch(self, on: bool) -> None:
        """Exchange gradients in the backward pass of the next forward pass, or leave it."""
        if on is self._now:
            return
        self._now = on
        for ddp in self._ddp:  # what DDP.no_sync() sets for the length of a context
            # A static graph is learnt in the first step, which DDP cannot without exchanging; the
            # sums are right all the same: what was averaged already is alike on all ranks.
            ddp.require_backward_grad_sync = on or (ddp.static_graph and not self._exchanged)
        self._exchanged |= on
        for shard in self._fsdp:
            shard.set_requires_gradient_sync(on, recurse=False)
