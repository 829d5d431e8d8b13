import numpy as np
import torch

weights = torch.tensor([1.0, 2.0, 3.0])
classes = torch.tensor([count(name) for name in names])
for rows in loader:
    x = torch.from_numpy(np.asarray(rows))
    zero = torch.tensor([0.0, 1.0])
    scale = torch.tensor(0.5)
    order = torch.LongTensor([[1, 2, 3], [4, 5, 6]])
