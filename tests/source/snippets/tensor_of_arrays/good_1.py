import numpy as np
import torch

x = torch.tensor([1, 2, 3])
y = torch.tensor([len(p) for p in paths])
z = torch.from_numpy(np.stack([np.load(p) for p in paths]))
w = torch.tensor([row.sum() for row in rows])
labels = torch.tensor([int(np.argmax(row)) for row in rows])
stacked = torch.stack([torch.from_numpy(np.load(p)) for p in paths])
