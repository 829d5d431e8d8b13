"""Gradients of embedding tables that hold only the rows that were looked up."""

from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Sparse gradients for large embedding tables",
    group=Group.OPTIMIZER,
    numerics=Numerics.TRAINING,
    how=(How.ADVICE,),
    why=(
        "A batch looks up a few rows of an embedding table. Its gradient is by default as large as "
        "the table: it is filled with zeros and exchanged between ranks, and the optimizer "
        "reads and writes every row and its moments. With sparse=True all of this is done for the "
        "rows of the batch."
    ),
    changes=(
        "With SGD without momentum and with Adagrad, both without weight decay, nothing but "
        "rounding. SparseAdam leaves the moments of rows alone that are not in the batch, while "
        "Adam moves these rows on by their moments: losses differ. Memory for gradients shrinks to "
        "the rows of the batch."
    ),
    avoid=(
        "Leave it where the table is shared with the output layer, where weight decay or gradient "
        "clipping has to see all rows, and for tables of a few thousand rows. SparseAdam takes no "
        "dense gradients, so that the other parameters need an optimizer of their own; most other "
        "optimizers take no sparse ones. NCCL exchanges no sparse gradients between GPUs."
    ),
    claims=(
        Claim("goes beyond the articles", "torch.nn.Embedding (sparse), torch.optim.SparseAdam"),
    ),
    needs=(Need("dense_rows", "no large table was seen of which a step leaves most rows out"),),
    symptom=Symptom(
        phases=("optimizer", "backward"),
        says=(
            "whole embedding tables get gradients, of which a step looks up a few rows: "
            "sparse=True, and an optimizer of its own for the table (SparseAdam, Adagrad or SGD)"
        ),
        place="dense_rows",
        gives=0.8,
    ),
    examples=(
        Example(
            "import torch\n\n"
            "table = torch.nn.Embedding(300_000, 32)\n"
            "optimizer = torch.optim.Adam(table.parameters())\n",
            "import torch\n\n"
            "table = torch.nn.Embedding(300_000, 32, sparse=True)\n"
            "optimizer = torch.optim.SparseAdam(table.parameters())\n",
        ),
        Example(
            "import torch\n\n"
            "table = torch.nn.Embedding(30_000, 32)\n"
            "output = torch.nn.Linear(32, 30_000)\n"
            "output.weight = table.weight\n"
        ),
    ),
)
