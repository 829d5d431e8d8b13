from transformers import Trainer


def metrics(pred):
    return {"accuracy": (pred.predictions.argmax(-1) == pred.label_ids).mean()}


def first(logits, labels):
    return logits.argmax(-1)


def spread(pred):
    return {"spread": pred.predictions.std()}


one = Trainer(model, args, compute_metrics=metrics, preprocess_logits_for_metrics=first)
two = Trainer(model, args, compute_metrics=spread)
