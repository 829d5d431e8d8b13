import torch
from torch.amp import GradScaler, autocast

scaler = GradScaler("cuda")
with autocast("cuda"):
    y = model(x)
