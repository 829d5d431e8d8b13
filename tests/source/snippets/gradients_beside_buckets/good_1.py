from torch.nn.parallel import DistributedDataParallel as DDP

model = DDP(net, device_ids=[rank], gradient_as_bucket_view=True)
