import gc

import torch

for x, y in loader:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
    gc.collect()  # found: collected_in_step
