import torch
from torch.nn.parallel import DistributedDataParallel


def train(net, loader, accumulate, rank):
    model = DistributedDataParallel(net.to(rank), device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters())
    for epoch in range(3):
        for step, batch in enumerate(loader):
            loss = model(batch.to(rank)).mean()
            (loss / accumulate).backward()  # found: synced_accumulation
            if (step + 1) % accumulate == 0 or step + 1 == len(loader):
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
