import torch

torch.backends.cudnn.enabled = False  # found: cudnn_off
