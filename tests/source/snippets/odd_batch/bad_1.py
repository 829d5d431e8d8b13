from torch.utils.data import DataLoader as DL

train = DL(train_set, batch_size=100, shuffle=True, num_workers=4)  # found: odd_batch
