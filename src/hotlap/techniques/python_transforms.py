"""What a dataset does for each sample."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Take work out of __getitem__",
    group=Group.DATA_LOADING,
    numerics=Numerics.EXACT,
    how=(How.ADVICE,),
    inference=True,
    why=(
        "Whatever __getitem__ does is done again for each sample of each epoch, in Python, by a"
        " few workers. Decoding, parsing, tokenising and loops over values cost far more than "
        "copying the finished tensor would."
    ),
    changes=(
        "Nothing, where what is stored is what would have been computed. Random augmentation "
        "has to stay per sample."
    ),
    avoid=(
        "Leave it where the workers keep ahead of the model: `hotlap profile` shows whether the"
        " step waits for data."
    ),
    claims=(
        Claim(
            "1200 -> 5800 img/s and GPU use 45 -> 92 % for the loader work as a whole",
            "A2: 'six techniques' article",
        ),
        Claim("named without a figure", "A3: data-loading article"),
    ),
    patterns=(
        Pattern(
            id="heavy_getitem",
            says="done again for each sample of each epoch",
            remedy=(
                "do it once, before the training, and read the result (`hotlap pack` for images, "
                "token ids for texts, arrays or tensors for tables and parsed files); what is "
                "random: with whole arrays instead of a loop"
            ),
            ignore="the workers keep up: `hotlap profile` shows no time in data loading",
            check="hotlap.source.checks.datasets:heavy_getitem",
            hint=True,
            phases=("data", "loader", "evaluation_data"),
        ),
    ),
    examples=(
        Example(
            "class Images(Dataset):\n"
            "    def __getitem__(self, index):\n"
            "        return json.loads(self.lines[index])\n",
            "class Images(Dataset):\n"
            "    def __init__(self, lines):\n"
            "        self.rows = [json.loads(line) for line in lines]\n"
            "\n"
            "    def __getitem__(self, index):\n"
            "        return self.rows[index]\n",
        ),
        Example(
            "class Images(Dataset):\n"
            "    def __getitem__(self, index):\n"
            "        return self.images[index], self.labels[index]\n",
        ),
    ),
)
