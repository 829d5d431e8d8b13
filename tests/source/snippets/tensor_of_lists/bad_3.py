import torch
from torch.utils.data import Dataset


class Captions(Dataset):
    def __init__(self, captions, lengths):
        self.captions, self.lengths = captions, lengths

    def __len__(self):
        return len(self.captions)

    def __getitem__(self, i):
        caption = torch.LongTensor(self.captions[i])  # found: tensor_of_lists
        return caption, self._identifiers(i)

    def _identifiers(self, i):
        return torch.IntTensor(text_to_sequence(self.lengths[i]))  # found: tensor_of_lists


class PadCollate:
    def __call__(self, batch):
        lengths = torch.LongTensor([len(x[0]) for x in batch])  # found: tensor_of_lists
        return batch, lengths
