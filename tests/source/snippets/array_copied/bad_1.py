import numpy as np
import torch

x = torch.tensor(np.load("x.npy"))  # found: array_copied
frame = np.zeros((3, 4), dtype=np.float32)
y = torch.tensor(frame.transpose(1, 0)).to(device)  # found: array_copied
z = torch.FloatTensor(np.stack([row.astype("float32") for row in rows]))  # found: array_copied
