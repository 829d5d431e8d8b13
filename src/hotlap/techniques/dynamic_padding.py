"""Each batch as long as its longest sequence, not as the longest that there may be."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Pad each batch to its longest sequence",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.ADVICE,),
    inference=True,
    why=(
        "A model computes on padding as it does on tokens. Where every sequence is padded to one "
        "length when it is tokenised, most positions of short texts are padding. Padded in the "
        "collate function instead, a batch is as long as its longest sequence; sampling sequences "
        "of like length together leaves even less. A multiple of 8 suits tensor cores."
    ),
    changes=(
        "Only the rounding, where the attention mask and the loss leave padding out. Positions "
        "counted from the end (left padding) keep their order. A loss that averages over padding "
        "changes with the number of padded positions. A recurrent network that gets no packed "
        "sequence (pack_padded_sequence) computes on through the padding and gives different "
        "results with less of it: another last state, and with bidirectional=True other outputs "
        "at every position. It is another training then, in which no race proves equal losses."
    ),
    avoid=(
        "Leave it off where the model needs one length (text encoders of diffusion models), and "
        "where shapes have to stay the same: CUDA graphs, a compiled model without dynamic shapes, "
        "TPUs."
    ),
    claims=(Claim("named without a figure", "Hugging Face course, chapter 3: dynamic padding"),),
    patterns=(
        Pattern(
            id="padded_to_max_length",
            says="every sequence is padded to one length, and the model computes on the padding",
            remedy=(
                "leave the sequences as they are; pad in collate_fn: torch.nn.utils.rnn."
                "pad_sequence(batch, batch_first=True), or with a Hugging Face tokenizer "
                "DataCollatorWithPadding(tokenizer, pad_to_multiple_of=8)"
            ),
            ignore="the model needs one length, or most sequences reach it",
            check="hotlap.source.checks.padding:padded_to_max_length",
            hint=True,
            phases=("forward", "backward"),
            elsewhere=True,
        ),
    ),
    examples=(
        Example(
            "def encode(rows):\n"
            '    return tokenizer(rows["text"], padding="max_length", truncation=True)\n',
            'def encode(rows):\n    return tokenizer(rows["text"], truncation=True)\n',
        ),
        Example(
            "from transformers import DataCollatorWithPadding\n"
            "\n"
            "collate = DataCollatorWithPadding(tokenizer, pad_to_multiple_of=8)\n",
        ),
    ),
)
