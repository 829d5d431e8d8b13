import torch.nn as nn

model = nn.DataParallel(Net(), device_ids=[0, 1, 2, 3])  # found: data_parallel
