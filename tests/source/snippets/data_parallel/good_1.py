import torch
from torch.nn.parallel import DistributedDataParallel as DDP

model = DDP(model, device_ids=[rank])
if isinstance(model, torch.nn.DataParallel):
    model = model.module
