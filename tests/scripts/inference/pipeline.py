"""A Hugging Face pipeline with a tiny model of random weights."""

import torch
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer, pipeline

torch.manual_seed(0)
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "good", "bad", "film", "it", "was"]
with open("vocab.txt", "w") as file:
    file.write("\n".join(words))
config = BertConfig(
    vocab_size=len(words),
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
)
classify = pipeline(
    "text-classification",
    model=BertForSequenceClassification(config).eval(),
    tokenizer=BertTokenizer("vocab.txt"),
    device="cpu",
)
for index in range(100_000):
    print(classify("it was a good film " * (1 + index % 3))[0]["label"])
