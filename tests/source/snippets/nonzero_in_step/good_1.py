import numpy as np
import torch

for x, y in loader:
    rows = y.nonzero()
    there = np.array(names).nonzero()
    x, y = x.cuda(), y.cuda()
    masked = torch.where(y > 0, x, 0)
    criterion(model(masked), y).backward()
    optimizer.step()
