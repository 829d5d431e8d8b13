import numpy as np
import torch

text = torch.randint(0, 64, (20000,))
table = torch.from_numpy(np.triu(np.load("table.npy")))
for step in range(100):
    at = 13 * step
    x, y = text[None, at : at + 768].to(device), table[at].to(device)
    optimizer.zero_grad()
    (model(x) - y).sum().backward()
    optimizer.step()
