import torch

losses, outputs = [], {}
history = {"loss": []}
for i, (x, y) in enumerate(loader):
    out = model(x)
    loss = criterion(out, y)
    loss.backward()
    optimizer.step()
    losses.append(loss)  # found: graph_kept
    outputs[i] = out  # found: graph_kept
    history["loss"].append(loss)  # found: graph_kept
    losses += [loss]  # found: graph_kept
    pairs.append((i, loss))  # found: graph_kept
