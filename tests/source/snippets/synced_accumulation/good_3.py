from torch.nn.parallel import DistributedDataParallel as DDP

model = DDP(net)
for i, (x, y) in enumerate(loader):
    model.require_backward_grad_sync = (i + 1) % 4 == 0
    loss = criterion(model(x), y) / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
