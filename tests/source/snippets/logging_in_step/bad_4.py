import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.utilities import grad_norm


class Model(LightningModule):
    def training_step(self, batch, index):
        losses = self.losses(batch)
        self.log_dict(losses)  # found: logging_in_step
        return sum(losses.values())

    def on_before_optimizer_step(self, optimizer):
        self.log_dict(grad_norm(self, norm_type=2))  # found: logging_in_step

    def on_after_backward(self):
        for name, p in self.named_parameters():
            if p.grad is not None:
                self.log("weight/" + name, torch.linalg.norm(p))  # found: logging_in_step
