import numpy as np
import torch

for x, y in loader:
    size = y.sum().item()
    rate = np.mean(sizes).item()
    lengths = y.tolist()
    loss = criterion(model(x.cuda()), y.cuda()) / x.shape[0]
    loss.backward()
    optimizer.step()
    steps += int(x.size(0))
    if should_log(step):
        print(loss.item())
    if done:
        print(loss.item())
        break
