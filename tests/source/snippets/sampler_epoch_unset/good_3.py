from torch.utils.data import DataLoader, DistributedSampler

loader = DataLoader(data, batch_size=32, sampler=DistributedSampler(data))
held_out = DataLoader(test_data, batch_size=32, sampler=DistributedSampler(test_data))
for x, y in loader:  # one epoch
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
