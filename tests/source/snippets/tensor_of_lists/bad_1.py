import torch
from torch.utils.data import Dataset


class Words(Dataset):
    def __getitem__(self, index):
        ids = [self.vocabulary[word] for word in self.lines[index].split()]
        return torch.tensor(ids), torch.LongTensor([self.labels[index]])  # found: tensor_of_lists


def collate(rows):
    return torch.FloatTensor([row["score"] for row in rows])  # found: tensor_of_lists
