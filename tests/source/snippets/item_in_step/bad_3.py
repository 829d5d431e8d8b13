import pytorch_lightning as pl
import torch.nn.functional as F


class Net(pl.LightningModule):
    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        loss = F.cross_entropy(logits, y)
        self.log("train_loss", loss.item())  # found: item_in_step
        return loss
