import torch
from lightning.pytorch import LightningModule


class Model(LightningModule):
    def training_step(self, batch, index):
        loss, accuracy = self.losses(batch)
        self.log("loss", loss)
        self.log_dict({"loss": loss, "accuracy": accuracy})
        return loss

    def on_before_optimizer_step(self, optimizer):
        if self.trainer.global_step % 100 == 0:
            self.log_dict(self.norms())

    def validation_step(self, batch, index):
        self.log_dict(self.metrics(batch))
        torch.manual_seed(0)
