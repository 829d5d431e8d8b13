from transformers import DataCollatorWithPadding

PADDING = "max_length"


def loaders(tokenizer, Loader, data):
    fixed = DataCollatorWithPadding(tokenizer, padding=PADDING, max_length=256)  # found: padded_to_max_length
    return Loader(data, collate_fn=fixed)


def old(tokenizer, text):
    return tokenizer.encode_plus(text, pad_to_max_length=True, max_length=64)  # found: padded_to_max_length
