import torch

losses = []
for x, y in loader:
    parts = []
    for head in heads:
        parts.append(criterion(head(x), y))
    loss = torch.stack(parts).sum()
    loss.backward()
    optimizer.step()
    kept.append(loss.detach())
    shapes.append(loss.shape)
    guesses.append(model(x).argmax(1))
    results["loss"] = 3
