from paddle.io import DataLoader

import torch


class Feed(torch.utils.data.DataLoader):
    def __init__(self, dataset, **kwargs):
        super().__init__(dataset, num_workers=4, **kwargs)


def loaders(DataLoader):
    return DataLoader(dataset, batch_size=4)


loader = DataLoader(dataset, batch_size=4)
feed = Feed(dataset, batch_size=4)
