import pytorch_lightning as pl
import torch


def main(model, data):
    trainer = pl.Trainer(max_epochs=10, accelerator="gpu", detect_anomaly=True)  # found: anomaly_on
    trainer.fit(model, data)
