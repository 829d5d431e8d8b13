import torch
from torch.utils.data import DataLoader

use_cuda = torch.cuda.is_available()
options = {"batch_size": 64}
if use_cuda:
    options.update({"num_workers": 1, "pin_memory": True})
loader = DataLoader(data, **options)
extra = {"pin_memory": True} if use_cuda else {}
other = DataLoader(data, 64, **extra)
