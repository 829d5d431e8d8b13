import torch

history, previous = [], []
for x, y in loader:
    out = model(x)
    loss = criterion(out, y)
    loss.backward()
    optimizer.step()
    history.append(loss.data)
    values = out.data
    previous.append(values.max(1)[1])
    scores[len(previous)] = loss.data.mean()
    kept.append(torch.max(out.data, 1)[1])
    totals.append(out.clone().data.cpu())
