import torch

torch.autograd.set_detect_anomaly(True)  # found: anomaly_on
for x, y in loader:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
