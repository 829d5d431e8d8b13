from torch.nn.parallel import DistributedDataParallel as DDP

model = DDP(net, static_graph=True)
for x, y in loader:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
