import torch
from torch import optim

first = torch.optim.AdamW(model.parameters(), lr=1e-3)  # found: unfused_optimizer
second = optim.SGD(model.parameters(), 0.1, momentum=0.9)  # found: unfused_optimizer
third = optim.Adam(model.parameters(), fused=False)  # found: unfused_optimizer
