"""An IterableDataset, shared out between two loader workers."""

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __init__(self, length):
        self.length = length

    def __iter__(self):
        info = get_worker_info()
        first, stride = (0, 1) if info is None else (info.id, info.num_workers)
        for i in range(first, self.length, stride):
            x = torch.sin(torch.arange(8) * (i + 1.0))
            yield x, x.sum().unsqueeze(0)


def main():
    torch.manual_seed(15)
    loader = DataLoader(Stream(96), batch_size=8, num_workers=2)
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step, (x, y) in enumerate(loader):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}")
    print("done")


if __name__ == "__main__":
    main()
