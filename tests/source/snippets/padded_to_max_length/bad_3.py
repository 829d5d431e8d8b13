import torch
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file("tokenizer.json")
tokenizer.enable_padding(pad_id=3, length=512)  # found: padded_to_max_length
ids = torch.tensor(tokenizer.encode("a").ids)
