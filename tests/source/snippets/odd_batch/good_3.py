from torch.utils.data import DataLoader

train_loader = DataLoader(data, batch_size=64)
val_loader = DataLoader(held_out, batch_size=100)
test_loader = DataLoader(dataset=unseen, batch_size=10)
