import torch
from torch.utils.data import Dataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Rows(Dataset):
    def __init__(self, rows, labels, args):
        self.rows, self.labels, self.device = rows, labels, args.device

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        x = torch.as_tensor(self.rows[i], device=self.device)  # found: copied_in_loader
        return self.scaled(x), torch.as_tensor(self.labels[i]).to(device)  # found: copied_in_loader

    def scaled(self, x):
        return x / torch.ones(8).to("cuda:0")  # found: copied_in_loader
