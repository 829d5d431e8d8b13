import pytorch_lightning as pl
from torch.utils.data import DataLoader


class Data(pl.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(self.train, 32, num_workers=4, pin_memory=False)  # found: unpinned_loader


trainer = pl.Trainer(accelerator="gpu", devices=1)
