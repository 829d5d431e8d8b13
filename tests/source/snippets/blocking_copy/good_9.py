import torch
from torch.utils.data import DataLoader

loader = DataLoader(data, 32, pin_memory=True)
for x, y in loader:
    x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
    chosen = torch.from_numpy(assignment(y.shape)).to(x.device)
    criterion(model(x), y, chosen).backward()
    optimizer.step()
