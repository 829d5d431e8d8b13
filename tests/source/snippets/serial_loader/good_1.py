import torch
from torch.utils.data import DataLoader, TensorDataset

parser.add_argument("-j", "--num-workers", default=8, type=int)
loader = DataLoader(dataset, 32, num_workers=args.num_workers)
other = DataLoader(dataset, 32, True, None, None, 4)
third = DataLoader(dataset, **options)
fourth = DataLoader(*arguments)
data = TensorDataset(torch.randn(100, 3), torch.randn(100))
in_memory = DataLoader(data, batch_size=10)
