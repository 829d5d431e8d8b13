import torch

best = float("inf")
for x, y in loader:
    loss = criterion(model(x), y)
    if loss < best:  # found: tensor_as_condition
        best = loss.detach()
    assert torch.isfinite(loss)  # found: tensor_as_condition
    if torch.isnan(loss).any():  # found: tensor_as_condition
        continue
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if not norm > 100:  # found: tensor_as_condition
        optimizer.step()
