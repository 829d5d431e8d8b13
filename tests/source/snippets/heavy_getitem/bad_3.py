import torch
from transformers import AutoTokenizer


class Texts(torch.utils.data.Dataset):
    def __init__(self, texts, tokenizer):
        self.texts, self.tokenizer = texts, tokenizer

    def __getitem__(self, index):
        encoded = self.tokenizer(self.texts[index], padding="max_length")  # found: heavy_getitem
        return {k: torch.tensor(v) for k, v in encoded.items()}
