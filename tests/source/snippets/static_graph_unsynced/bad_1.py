from contextlib import nullcontext

from torch.nn.parallel import DistributedDataParallel as DDP

model = DDP(net, static_graph=True)  # found: static_graph_unsynced
for i, (x, y) in enumerate(loader):
    last = (i + 1) % 8 == 0
    with nullcontext() if last else model.no_sync():
        loss = criterion(model(x), y) / 8
        loss.backward()
    if last:
        optimizer.step()
        optimizer.zero_grad()
