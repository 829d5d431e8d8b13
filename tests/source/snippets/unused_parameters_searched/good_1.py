from torch.nn.parallel import DistributedDataParallel

model = DistributedDataParallel(net, find_unused_parameters=False)
plain = DistributedDataParallel(net)
