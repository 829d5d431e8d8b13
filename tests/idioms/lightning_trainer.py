"""Lightning's Trainer: its loop calls step with a closure."""

import logging
import warnings

import lightning as L  # noqa: N812
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class LitModel(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 3))

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        if batch_idx % 4 == 0:
            print(f"epoch {self.current_epoch} batch {batch_idx} loss {loss.item():.5f}")
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        correct = (self.net(x).argmax(1) == y).float().mean()
        print(f"validation {batch_idx} accuracy {correct.item():.4f}")

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def main():
    L.seed_everything(0, verbose=False)
    x = torch.randn(128, 12)
    dataset = TensorDataset(x, x[:, :3].argmax(1))
    trainer = L.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(
        LitModel(), DataLoader(dataset, batch_size=16, shuffle=True), DataLoader(dataset, 128)
    )
    print("global step", trainer.global_step)


if __name__ == "__main__":
    main()
