from torch.utils.data import DataLoader, DistributedSampler

loader = DataLoader(data, batch_size=32, sampler=DistributedSampler(data, shuffle=False))
for epoch in range(30):
    for x, y in loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
