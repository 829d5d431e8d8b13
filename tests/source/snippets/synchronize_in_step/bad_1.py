import torch

for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    torch.cuda.synchronize()  # found: synchronize_in_step
    loss.backward()
    optimizer.step()
