import torch
from tokenizers import Tokenizer
from torch.nn.utils.rnn import pad_sequence
from transformers import DataCollatorWithPadding

tokenizer = Tokenizer.from_file("tokenizer.json")
tokenizer.enable_padding(pad_id=3)
convolution = torch.nn.Conv2d(3, 8, 3, padding="same")


def collate(rows):
    return pad_sequence([row["ids"] for row in rows], batch_first=True, padding_value=3)


def collators(fast, texts):
    batch = fast(texts, padding=True, truncation=True, max_length=512)
    return batch, DataCollatorWithPadding(fast, padding="longest", pad_to_multiple_of=8)
