from torch.utils.data import Dataset


class Words(Dataset):
    def __init__(self, lines, vocabulary):
        self.rows = [[vocabulary[w] for w in line.split()] for line in lines]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]
