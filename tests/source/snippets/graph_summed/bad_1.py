import torch

total_loss = 0
for x, y in loader:
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total_loss += loss  # found: graph_summed
print(total_loss / len(loader))
