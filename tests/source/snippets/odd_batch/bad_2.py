import torch

BATCH_SIZE = 250
loader = torch.utils.data.DataLoader(data, BATCH_SIZE, num_workers=4)  # found: odd_batch
