import torch
from torch.utils.data import DataLoader as DL


def loaders(train_set, val_set, args):
    train = DL(train_set, args.batch, True, num_workers=0)  # found: serial_loader
    val = DL(dataset=val_set, batch_size=256)  # found: serial_loader
    return train, val
