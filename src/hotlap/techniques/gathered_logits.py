"""Predictions in the place of logits, where an evaluation keeps them for a metric."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Keep predictions, not logits, in an evaluation",
    group=Group.MEMORY,
    numerics=Numerics.EXACT,
    how=(How.ADVICE,),
    why=(
        "transformers' Trainer keeps what the model returns for every batch of an evaluation, "
        "copies it to the host and joins it, so that compute_metrics can look at all of it. The "
        "logits of a language model are a number for each word of the vocabulary at each "
        "position. preprocess_logits_for_metrics reduces them batch by batch, on the device."
    ),
    changes="Nothing: the argmax of each batch is that of the whole.",
    avoid="Leave it where the metric needs the logits themselves, as a perplexity or an AUC does.",
    claims=(
        Claim(
            "goes beyond the articles",
            "transformers documentation, Trainer, preprocess_logits_for_metrics",
        ),
    ),
    patterns=(
        Pattern(
            id="argmax_of_gathered",
            says="the logits of the whole evaluation are kept for this argmax",
            remedy=(
                "Trainer(preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1)): "
                "compute_metrics gets the predictions then"
            ),
            ignore="there are only a few classes",
            check="hotlap.source.checks.gathered_logits:argmax_of_gathered",
            fault=True,
            hint=True,
        ),
    ),
    examples=(
        Example(
            "from transformers import Trainer\n\n\n"
            "def compute_metrics(pred):\n"
            "    guess = pred.predictions.argmax(-1)\n"
            '    return {"accuracy": (guess == pred.label_ids).mean()}\n\n\n'
            "trainer = Trainer(model, args, compute_metrics=compute_metrics)\n",
            "from transformers import Trainer\n\n\n"
            "def compute_metrics(pred):\n"
            '    return {"accuracy": (pred.predictions == pred.label_ids).mean()}\n\n\n'
            "trainer = Trainer(\n"
            "    model,\n"
            "    args,\n"
            "    compute_metrics=compute_metrics,\n"
            "    preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1),\n"
            ")\n",
        ),
        Example(
            "from transformers import Trainer\n\n\n"
            "def compute_metrics(pred):\n"
            '    return {"spread": pred.predictions.std()}\n\n\n'
            "trainer = Trainer(model, args, compute_metrics=compute_metrics)\n"
        ),
    ),
)
