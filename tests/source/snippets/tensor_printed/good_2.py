import pytorch_lightning as pl
import torch.nn.functional as F


class Net(pl.LightningModule):
    def training_step(self, batch, batch_idx):
        loss = F.cross_entropy(self(batch[0]), batch[1])
        self.log("loss", loss)
        self.log_dict({"a": loss})
        return loss
