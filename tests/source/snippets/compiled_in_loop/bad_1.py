import torch

for x, y in loader:
    compiled = torch.compile(model)  # found: compiled_in_loop
    optimizer.zero_grad()
    criterion(compiled(x), y).backward()
    optimizer.step()
