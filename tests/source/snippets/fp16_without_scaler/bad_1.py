import torch

for x, y in loader:
    optimizer.zero_grad()
    with torch.autocast("cuda"):  # found: fp16_without_scaler
        loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
