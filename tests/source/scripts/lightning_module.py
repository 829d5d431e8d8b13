"""A speech-command classifier as a Lightning module."""

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchaudio
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader
from torchmetrics.classification import MulticlassAccuracy


class ConvBlock(nn.Module):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.conv1 = nn.Conv1d(inputs, outputs, 3, stride, 1, bias=True)  # found: bias_before_norm
        self.norm1 = nn.BatchNorm1d(outputs)
        self.conv2 = nn.Conv1d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm1d(outputs)
        self.short = nn.Conv1d(inputs, outputs, 1, stride)

    def forward(self, x):
        out = self.conv1(x)
        out = self.norm1(out)
        out = F.relu(out)
        out = self.conv2(out)
        out = self.norm2(out)
        return F.relu(out + self.short(x))


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, heads, dropout=0.1):
        super().__init__()
        self.heads = heads
        self.d_k = d_model // heads
        self.q_linear = nn.Linear(d_model, d_model)
        self.k_linear = nn.Linear(d_model, d_model)
        self.v_linear = nn.Linear(d_model, d_model)
        self.out = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def split(self, x):
        return x.view(x.size(0), -1, self.heads, self.d_k).transpose(1, 2)

    def forward(self, x, mask=None):
        q = self.split(self.q_linear(x))
        k = self.split(self.k_linear(x))
        v = self.split(self.v_linear(x))
        scores = torch.matmul(q, k.transpose(-2, -1)) / self.d_k**0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        scores = F.softmax(scores, dim=-1)
        scores = self.dropout(scores)
        output = torch.matmul(scores, v)  # found: attention_by_hand
        output = output.transpose(1, 2).contiguous().view(x.size(0), -1, self.heads * self.d_k)
        return self.out(output)


class Commands(L.LightningModule):
    def __init__(self, classes=35, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.spec = torchaudio.transforms.MelSpectrogram(n_mels=64)
        self.body = nn.Sequential(ConvBlock(64, 128, 2), ConvBlock(128, 256, 2))
        self.attention = MultiHeadAttention(256, 8)
        self.pool = nn.AdaptiveAvgPool1d(1)
        self.head = nn.Sequential(
            nn.Linear(256, 256),  # found: bias_before_norm
            nn.BatchNorm1d(256),
            nn.ReLU(),
            nn.Linear(256, classes),
        )
        self.accuracy = MulticlassAccuracy(classes)

    def forward(self, waves):
        features = []
        for wave in waves.unbind(0):  # found: loop_over_samples
            features.append(self.spec(wave).log1p())
        x = self.body(torch.stack(features))
        x = x + self.attention(x.transpose(1, 2)).transpose(1, 2)
        return self.head(self.pool(x).squeeze(-1))

    def training_step(self, batch, batch_idx):
        waves, labels = batch
        loss = F.cross_entropy(self(waves), labels)
        self.log("train_loss", loss, prog_bar=True)
        torch.cuda.empty_cache()  # found: cache_emptied_in_step
        return loss

    def validation_step(self, batch, batch_idx):
        waves, labels = batch
        logits = self(waves)
        self.accuracy(logits, labels)
        self.log("val_acc", self.accuracy, on_epoch=True)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, fused=True)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, self.hparams.lr, total_steps=self.trainer.estimated_stepping_batches
        )
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }


class CommandData(L.LightningDataModule):
    def __init__(self, root="data", batch_size=256):
        super().__init__()
        self.root, self.batch_size = root, batch_size

    def setup(self, stage):
        self.train = torchaudio.datasets.SPEECHCOMMANDS(self.root, subset="training")
        self.val = torchaudio.datasets.SPEECHCOMMANDS(self.root, subset="validation")
        self.labels = {name: i for i, name in enumerate(sorted({self.train.get_metadata(i)[2] for i in range(len(self.train))}))}

    def collate(self, batch):
        waves = nn.utils.rnn.pad_sequence([w.t() for w, *_ in batch], batch_first=True)
        return waves.squeeze(-1), torch.tensor([self.labels[label] for _, _, label, *_ in batch])

    def loader(self, dataset, shuffle):
        return DataLoader(
            dataset,
            self.batch_size,
            shuffle=shuffle,
            collate_fn=self.collate,
            num_workers=8,
            pin_memory=True,
            persistent_workers=True,
        )

    def train_dataloader(self):
        return self.loader(self.train, True)

    def val_dataloader(self):
        return self.loader(self.val, False)


def main():
    L.seed_everything(1)
    trainer = L.Trainer(
        max_epochs=30,
        precision="16-mixed",
        detect_anomaly=True,  # found: anomaly_on
        profiler="advanced",  # found: profiler_on
        callbacks=[ModelCheckpoint(monitor="val_acc", mode="max")],
    )
    trainer.fit(Commands(), CommandData())


if __name__ == "__main__":
    main()
