import lightning as L

from mylib import DataParallel


def main(torch_model):
    L.Trainer(strategy="ddp").fit(torch_model)
    return DataParallel(torch_model)
