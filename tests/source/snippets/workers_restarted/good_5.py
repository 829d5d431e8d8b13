from torch.utils.data import DataLoader, Sampler


class Repeating(Sampler):
    def __init__(self, data):
        self.data = data

    def __iter__(self):
        while True:
            yield from range(len(self.data))


loader = DataLoader(data, 32, num_workers=4, sampler=Repeating(data))
endless = DataLoader(data, num_workers=4, batch_sampler=InfiniteBatchSampler(data))
