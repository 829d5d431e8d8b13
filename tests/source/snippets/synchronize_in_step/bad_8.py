import torch

for x, y in loader:
    loss = criterion(model(x.to(device, non_blocking=True)), y)
    loss.backward()
    optimizer.step()
    if device.type == "cuda":
        torch.cuda.synchronize()  # found: synchronize_in_step
    if use_cuda:
        torch.cuda.synchronize(device)  # found: synchronize_in_step
