import torch
from torch.nn.parallel import DistributedDataParallel as DDP


def train(net, loader, accumulate):
    model = DDP(net)
    optimizer = torch.optim.Adam(model.parameters())
    for i, batch in enumerate(loader):
        loss = model(batch["x"], batch["y"])
        (loss / accumulate).backward()  # found: synced_accumulation
        if (i + 1) % accumulate != 0 and i + 1 != len(loader):
            continue
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
