from torch.utils.data import DataLoader


def loaders(a, b, args):
    return [
        DataLoader(a, batch_size=64, num_workers=4),
        DataLoader(a, batch_size=1, num_workers=4),
        DataLoader(a, batch_size=4, num_workers=4),
        DataLoader(b, batch_size=args.batch, num_workers=4),
        DataLoader(b, num_workers=4),
        DataLoader(b, batch_size=None, num_workers=4),
        DataLoader(b, batch_sampler=args.sampler, num_workers=4),
    ]
