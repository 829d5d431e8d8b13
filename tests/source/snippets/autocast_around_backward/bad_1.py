import torch

for x, y in loader:
    optimizer.zero_grad()
    with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
        loss = criterion(model(x), y)
        loss.backward()  # found: autocast_around_backward
    optimizer.step()
