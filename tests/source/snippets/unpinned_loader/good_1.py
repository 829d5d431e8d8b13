import torch
from torch.utils.data import DataLoader

first = DataLoader(dataset, batch_size=64, pin_memory=True)
second = DataLoader(dataset, batch_size=64, pin_memory=torch.cuda.is_available())
third = DataLoader(dataset, **options)
model.cuda()
