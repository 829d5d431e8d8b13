import re

import torch
from torch import nn

_WORDS = re.compile(r"\w+")
model = nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), fused=True)
for x, y in loader:  # found: uncompiled_model
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
