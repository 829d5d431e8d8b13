import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.utilities import grad_norm


class Model(LightningModule):
    def on_before_optimizer_step(self, optimizer):
        if self.trainer.global_step % 100 == 0:
            self.log_dict(grad_norm(self, norm_type=2))


def weights(model):
    return [p.norm() for p in model.parameters()]
