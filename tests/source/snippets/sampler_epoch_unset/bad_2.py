import torch
from torch.utils.data import DataLoader, DistributedSampler


def main(data, model, epochs, distributed):
    sampler = DistributedSampler(data, shuffle=True) if distributed else None  # found: sampler_epoch_unset
    train_loader = DataLoader(data, batch_size=32, shuffle=sampler is None, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        for i, (x, y) in enumerate(train_loader):
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
