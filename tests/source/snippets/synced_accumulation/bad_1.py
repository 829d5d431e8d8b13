from torch.nn.parallel import DistributedDataParallel as DDP

model = DDP(net)
for i, (x, y) in enumerate(loader):
    loss = criterion(model(x), y) / 8
    loss.backward()  # found: synced_accumulation
    if (i + 1) % 8 == 0:
        optimizer.step()
        optimizer.zero_grad()
