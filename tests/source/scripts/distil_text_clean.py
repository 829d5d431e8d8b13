"""Distil a text classifier with accelerate and transformers."""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from datasets import load_dataset
from torch.utils.data import DataLoader
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from tqdm.auto import tqdm
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    get_scheduler,
)


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--student", default="distilbert-base-uncased")
    parser.add_argument("--teacher", default="bert-base-uncased")
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=5e-5)
    parser.add_argument("--wd", type=float, default=0.01)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--temperature", type=float, default=2.0)
    parser.add_argument("--num_workers", type=int, default=0)
    return parser.parse_args()


def distillation_loss(student_logits, teacher_logits, temperature):
    soft = F.kl_div(
        F.log_softmax(student_logits / temperature, dim=-1),
        F.softmax(teacher_logits / temperature, dim=-1),
        reduction="batchmean",
    )
    return soft * temperature**2


def evaluate(model, loader, accelerator):
    model.eval()
    correct = total = 0
    for batch in loader:
        with torch.no_grad():
            logits = model(**batch).logits
        predictions = logits.argmax(dim=-1)
        correct += (predictions == batch["labels"]).sum().item()
        total += len(batch["labels"])
    model.train()
    return correct / total


def main():
    args = parse_args()
    accelerator = Accelerator(mixed_precision="bf16")
    tokenizer = AutoTokenizer.from_pretrained(args.teacher)
    raw = load_dataset("glue", "sst2")

    def encode(examples):
        return tokenizer(examples["sentence"], truncation=True, max_length=128)

    encoded = raw.map(encode, batched=True, remove_columns=["sentence", "idx"])
    encoded = encoded.rename_column("label", "labels")
    collator = DataCollatorWithPadding(tokenizer, pad_to_multiple_of=8)
    train_loader = DataLoader(
        encoded["train"], shuffle=True, batch_size=args.batch_size, collate_fn=collator,
        num_workers=2, persistent_workers=True, pin_memory=True,
    )
    eval_loader = DataLoader(
        encoded["validation"], batch_size=64, collate_fn=collator, num_workers=2,
        persistent_workers=True, pin_memory=True,
    )
    student = AutoModelForSequenceClassification.from_pretrained(args.student, num_labels=2)
    teacher = AutoModelForSequenceClassification.from_pretrained(args.teacher, num_labels=2)
    average = AveragedModel(student, multi_avg_fn=get_ema_multi_avg_fn(0.999))
    teacher.eval()
    optimizer = torch.optim.AdamW(student.parameters(), lr=args.lr, weight_decay=args.wd, fused=True)
    student, teacher, optimizer, train_loader, eval_loader = accelerator.prepare(
        student, teacher, optimizer, train_loader, eval_loader
    )
    scheduler = get_scheduler("linear", optimizer, 100, len(train_loader) * args.epochs)
    progress = tqdm(total=len(train_loader) * args.epochs)
    for epoch in range(args.epochs):
        total_loss = 0
        wrong = 0
        all_logits = []
        for step, batch in enumerate(train_loader):
            outputs = student(**batch)
            with torch.no_grad():
                teacher_logits = teacher(**batch).logits
            loss = outputs.loss + distillation_loss(
                outputs.logits, teacher_logits, args.temperature
            )
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            total_loss += loss.detach()
            all_logits.append(outputs.logits.detach())
            wrong += (outputs.logits.argmax(-1) != batch["labels"]).sum()
            if step % 100 == 0:
                progress.set_postfix(loss=float(loss))
            progress.update(1)
            average.update_parameters(student)
        accuracy = evaluate(student, eval_loader, accelerator)
        accelerator.print(f"epoch {epoch}: loss {float(total_loss) / len(train_loader):.4f}")
        accelerator.print(f"accuracy {accuracy:.4f}, hard examples {wrong.item()}")
    np.save("logits.npy", torch.cat(all_logits).float().cpu().detach().numpy())
    accelerator.unwrap_model(student).save_pretrained("student")


if __name__ == "__main__":
    main()
