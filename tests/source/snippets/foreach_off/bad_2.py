import torch
from torch.nn.utils import clip_grad_norm_ as clip
from torch.optim.adam import Adam as Optimizer

optimizer = Optimizer(model.parameters(), lr=1e-3, foreach=False)  # found: foreach_off
clip(model.parameters(), 1.0, foreach=False)  # found: foreach_off
