from torch.nn.parallel import DistributedDataParallel as DDP


def wrap(net, views, **options):
    asked = DDP(net, gradient_as_bucket_view=views)
    return asked, DDP(net, **options)
