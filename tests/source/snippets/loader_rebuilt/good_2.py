from torch.utils.data import DataLoader, Subset

for epoch in range(epochs):
    part = Subset(train_set, order[epoch])
    loader = DataLoader(part, 32, num_workers=4)
    serial = DataLoader(train_set, 32)
    sized = DataLoader(train_set, batch_size=sizes[epoch], num_workers=4)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
