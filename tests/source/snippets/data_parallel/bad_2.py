import torch
from torch.nn.parallel import DataParallel as DP


def wrap(model):
    if torch.cuda.device_count() > 1:
        model = DP(model)  # found: data_parallel
    return model.cuda()
