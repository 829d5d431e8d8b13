import torch

if hasattr(torch.amp, "GradScaler"):
    scaler = torch.amp.GradScaler("cuda")
else:
    scaler = torch.cuda.amp.GradScaler()

try:
    from torch.amp import autocast
except ImportError:
    from torch.cuda.amp import autocast

with autocast("cuda"):
    y = model(x)
