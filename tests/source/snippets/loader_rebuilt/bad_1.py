from torch.utils.data import DataLoader

for epoch in range(epochs):
    loader = DataLoader(train_set, 32, shuffle=True, num_workers=4)  # found: loader_rebuilt
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
