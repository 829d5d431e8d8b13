import torch
from torch.utils.data import DataLoader

device = torch.device("mps" if torch.backends.mps.is_available() else "cpu")
loader = DataLoader(dataset, batch_size=64)  # cuda is not used here
