import torch.nn as nn

options = {"find_unused_parameters": True}
model = nn.parallel.DistributedDataParallel(net, **options)  # found: unused_parameters_searched
