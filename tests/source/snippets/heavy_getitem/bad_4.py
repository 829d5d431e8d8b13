from torch.utils.data import Dataset


class Words(Dataset):
    def __init__(self, path, vocabulary):
        self.file, self.vocabulary = open(path), vocabulary

    def __len__(self):
        return 1000

    def __getitem__(self, i):
        words = self.file.readline().split()
        return [self.vocabulary[w] for w in words]  # found: heavy_getitem
