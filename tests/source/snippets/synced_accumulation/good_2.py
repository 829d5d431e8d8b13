import torch

optimizer = torch.optim.AdamW(model.parameters())
for i, (x, y) in enumerate(loader):  # one process: nothing is reduced
    loss = criterion(model(x), y) / 8
    loss.backward()
    if (i + 1) % 8 == 0:
        optimizer.step()
        optimizer.zero_grad()
