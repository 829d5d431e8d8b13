from datasets import load_dataset
from transformers import AutoTokenizer

LENGTH = 128
tokenizer = AutoTokenizer.from_pretrained("bert-base-cased")


def encode(rows):
    return tokenizer(  # found: padded_to_max_length
        rows["text"], padding="max_length", truncation=True, max_length=LENGTH
    )


data = load_dataset("imdb").map(encode, batched=True)
