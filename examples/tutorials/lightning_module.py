"""A LightningModule on samples that are prepared in Python, one by one."""

import argparse

import lightning
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Signals(Dataset):
    """Noisy sines; each one is filtered when it is read."""

    def __init__(self, count=2000, length=256):
        rng = np.random.default_rng(0)
        self.labels = rng.integers(0, 4, count)
        time = np.linspace(0, 2 * np.pi, length)
        self.signals = np.sin(time * (1 + self.labels[:, None])) + rng.normal(size=(count, length))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        smooth = np.convolve(self.signals[index], np.hanning(31), mode="same")
        low, high = np.percentile(smooth, (5, 95))
        return torch.tensor((smooth - low) / (high - low), dtype=torch.float32), self.labels[index]


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4))

    def training_step(self, batch, _):
        signals, labels = batch
        loss = nn.functional.cross_entropy(self.net(signals), labels)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=50)
    args = parser.parse_args()
    lightning.seed_everything(0)
    loader = DataLoader(Signals(), batch_size=32, shuffle=True)
    trainer = lightning.Trainer(
        max_epochs=args.epochs,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(Classifier(), loader)


if __name__ == "__main__":
    main()
