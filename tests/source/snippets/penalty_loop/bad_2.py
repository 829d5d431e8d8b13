import torch

for x, y in loader:
    optimizer.zero_grad()
    l2 = sum((p**2).sum() for p in model.parameters())  # found: penalty_loop
    l1 = 0.0
    for name, param in model.named_parameters():  # found: penalty_loop
        if "bias" not in name:
            l1 += param.abs().sum()
    reg = torch.stack([torch.norm(w, 2) for w in model.parameters()]).sum()  # found: penalty_loop
    loss = criterion(model(x), y) + 1e-4 * (l2 + l1 + reg)
    loss.backward()
    optimizer.step()
