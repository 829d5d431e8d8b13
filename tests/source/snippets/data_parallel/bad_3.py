import pytorch_lightning as pl
from torch.nn.parallel import data_parallel


def main(model, batch):
    trainer = pl.Trainer(gpus=4, strategy="dp")  # found: data_parallel
    trainer.fit(model)
    old = pl.Trainer(gpus=4, accelerator="dp")  # found: data_parallel
    old.fit(model)
    return data_parallel(model, batch, [0, 1])  # found: data_parallel
