from torch.utils.data import DataLoader, Subset

loader = DataLoader(train_set, 32, num_workers=4)
for fold in range(5):
    folded = DataLoader(train_set, 32, num_workers=4)
    for epoch in range(epochs):
        for x, y in folded:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
