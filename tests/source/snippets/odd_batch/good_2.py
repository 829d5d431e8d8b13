from mylib import DataLoader

loader = DataLoader("torch", batch_size=100)
