from contextlib import nullcontext

from torch.nn.parallel import DistributedDataParallel as DDP

model = DDP(net)
for i, (x, y) in enumerate(loader):
    last = (i + 1) % 8 == 0
    with nullcontext() if last else model.no_sync():
        loss = criterion(model(x), y) / 8
        loss.backward()
    if (i + 1) % 8 == 0:
        optimizer.step()
        optimizer.zero_grad()
