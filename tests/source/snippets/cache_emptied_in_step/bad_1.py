import torch

for epoch in range(10):
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
        del x, y
        torch.cuda.empty_cache()  # found: cache_emptied_in_step
