import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.utilities import grad_norm


class Model(LightningModule):
    def on_before_optimizer_step(self, optimizer):
        norms = grad_norm(self, norm_type=2)  # found: clipping_loop
        self.log_dict(norms)


def norms_of(model):
    parts = [torch.norm(p.grad) for p in model.parameters()]  # found: clipping_loop
    return {  # found: clipping_loop
        name: p.grad.data.norm(2).item()
        for name, p in model.named_parameters()
        if p.grad is not None
    }, torch.stack(parts).norm()
