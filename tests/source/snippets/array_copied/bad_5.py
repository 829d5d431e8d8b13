import numpy as np
import torch

cuda = torch.cuda.is_available()
Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
features = torch.FloatTensor(np.array(table.todense(), dtype=np.float32))  # found: array_copied
targets = torch.LongTensor(np.where(labels)[1].astype(np.int64))  # found: array_copied
noise = Tensor(np.random.normal(0, 1, (64, 100)).astype("f4"))  # found: array_copied
state = torch.DoubleTensor(np.zeros(4))  # found: array_copied
