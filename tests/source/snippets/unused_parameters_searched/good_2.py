from torch.nn.parallel import DistributedDataParallel


def wrap(net, frozen):
    return DistributedDataParallel(net, find_unused_parameters=frozen)
