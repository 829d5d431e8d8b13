import torch

print(sum(p.pow(2).sum() for p in model.parameters()))
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss = loss + sum(p.numel() for p in model.parameters()) * 0.0
    loss.backward()
    optimizer.step()
for epoch in range(3):
    print(torch.stack([p.norm() for p in model.parameters()]))
