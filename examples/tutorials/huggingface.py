"""A small BERT classifier with random weights, trained by Hugging Face's Trainer."""

import argparse

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


class Sentences(Dataset):
    """Random token numbers, padded to one length."""

    def __init__(self, count=2000, length=64):
        generator = torch.Generator().manual_seed(0)
        self.tokens = torch.randint(1, 1000, (count, length), generator=generator)
        self.labels = torch.randint(0, 2, (count,), generator=generator)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return {"input_ids": self.tokens[index].tolist(), "labels": int(self.labels[index])}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=float, default=20)
    args = parser.parse_args()
    config = BertConfig(
        vocab_size=1000,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
    )
    settings = TrainingArguments(
        output_dir="out",
        num_train_epochs=args.epochs,
        per_device_train_batch_size=16,
        logging_steps=50,
        save_strategy="no",
        report_to=[],
    )
    model = BertForSequenceClassification(config)
    Trainer(model, settings, train_dataset=Sentences()).train()


if __name__ == "__main__":
    main()
