from torch.utils.data import DataLoader

first = DataLoader(dataset, num_workers=4, persistent_workers=True)
second = DataLoader(dataset, num_workers=args.workers, persistent_workers=args.workers > 0)
third = DataLoader(dataset, num_workers=0)
fourth = DataLoader(dataset)
