import numpy as np
from transformers import Seq2SeqTrainer, Trainer


def metrics(pred):
    logits, labels = pred
    guess = np.argmax(logits, axis=-1)  # found: argmax_of_gathered
    return {"accuracy": (guess == labels).mean()}


def later(args, model):
    return Trainer(model=model, args=args, compute_metrics=metrics)
