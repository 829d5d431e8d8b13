from torch.nn.parallel import DistributedDataParallel as DDP


def wrap(net, local_rank):
    return DDP(net.cuda(local_rank), gradient_as_bucket_view=False)  # found: gradients_beside_buckets
