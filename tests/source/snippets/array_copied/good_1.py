import numpy as np
import torch

x = torch.tensor([1.0, 2.0])
y = torch.from_numpy(np.load("x.npy"))
z = torch.as_tensor(np.load("x.npy"))
scale = torch.tensor(np.pi)
count = torch.tensor(len(np.load("x.npy")))
label = torch.tensor(int(labels[3]))
loss = torch.tensor(0.0)
mean = torch.tensor(np.mean(values))
