from torch.nn.parallel import DistributedDataParallel

model = DistributedDataParallel(net, find_unused_parameters=True)  # found: unused_parameters_searched
