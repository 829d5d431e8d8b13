import torch

total = 0
for x, y in loader:
    loss = 0
    for head in heads:
        loss += criterion(head(model(x)), y)
    penalty = model(x).pow(2).sum()
    loss += 0.1 * penalty
    loss.backward()
    optimizer.step()
    total += loss.data
    summed += loss.detach()
    correct += (model(x).argmax(1) == y).sum()
    loss = loss.detach()
    running += loss
