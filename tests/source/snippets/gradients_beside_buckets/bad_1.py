import torch

model = torch.nn.parallel.DistributedDataParallel(net, device_ids=[rank])  # found: gradients_beside_buckets
