import numpy as np
import torch

torch.zeros(3, device=device).to(device)
kinds = torch.zeros(3).to(torch.bool)
same = torch.zeros(3).to(other.dtype)
loaded = torch.from_numpy(np.load("x.npy")).to(device)
model = torch.nn.Linear(3, 3).to(device)
like = torch.zeros_like(x).to(device)
back = torch.zeros(3).to("cpu")
kept = torch.zeros(3)
kept[0] = 1
kept = kept.to(device)
