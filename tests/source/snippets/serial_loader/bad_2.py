import torch.utils.data as data

NUM_WORKERS = 0
options = dict(batch_size=32, num_workers=NUM_WORKERS)
loader = data.DataLoader(MyDataset("train"), shuffle=True, **options)  # found: serial_loader
other = data.DataLoader(MyDataset("val"), 32, False, None, None, 0)  # found: serial_loader
