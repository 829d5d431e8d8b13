import torch

for x in loader:
    optimizer.zero_grad(set_to_none=False)  # found: gradients_zeroed
    model.zero_grad(False)  # found: gradients_zeroed
    model(x).sum().backward()
    optimizer.step()
