import torch

for i, batch in enumerate(loader):
    if batch is None or len(batch) == 0:
        continue
    out = model(batch)
    losses = [criterion(o, batch) for o in out]
    if losses:
        loss = sum(losses)
    if "aux" in out:
        loss = loss + out["aux"]
    loss.backward()
    optimizer.step()
    if scheduler:
        scheduler.step()
    if i % 100 == 0 and loss < 1:
        break
