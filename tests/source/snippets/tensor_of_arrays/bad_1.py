import numpy as np
import torch

rows = []
for path in paths:
    rows.append(np.load(path))
x = torch.tensor(rows)  # found: tensor_of_arrays
y = torch.tensor([np.load(p) for p in paths])  # found: tensor_of_arrays
a, b = np.zeros(3), np.ones(3)
z = torch.FloatTensor([a, b])  # found: tensor_of_arrays
