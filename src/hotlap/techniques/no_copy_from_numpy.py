"""Tensors from NumPy arrays without a copy."""

from hotlap.core.move import Wrap
from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Make tensors from NumPy arrays without a copy",
    group=Group.TRANSFER,
    numerics=Numerics.EXACT,
    how=(How.MOVE,),
    switchable=True,
    inference=True,
    why=(
        "torch.tensor(array) copies the array; torch.from_numpy shares its memory. A list of "
        "arrays is worse: torch.tensor reads it number by number, where np.stack copies blocks."
    ),
    changes=(
        "Same values, shape and dtype. A shared array and its tensor change together, so at run "
        "time memory is shared only where the array provably has no other user afterwards."
    ),
    avoid=(
        "Leave the copy in place when the array is written to later, or when in-place operations "
        "on the tensor must not reach the array. Where a dtype is asked for that the array does "
        "not have, the conversion copies anyway and nothing is saved."
    ),
    claims=(
        Claim("named without a figure", "A0: '18 tips' article, 2022"),
        Claim("named without a figure", "A4: '17 tips' article"),
    ),
    needs=(
        Need(
            "tensor_from_numpy",
            "outside of loader workers, torch.tensor is given no list of arrays, and no array "
            "of the same dtype that nobody else uses",
        ),
    ),
    moves=(
        Wrap(
            "tensor",
            "hotlap.seam.tensor:no_copy_from_numpy",
            edit="hotlap.source.edits.arrays:no_copy_from_numpy",
        ),
    ),
    symptom=Symptom(
        phases=("data", "other"),
        says="torch.tensor copies NumPy arrays",
        place="tensor",
        gives=0.9,
        by_line=True,
    ),
    patterns=(
        Pattern(
            id="tensor_of_lists",
            says="a Python list is read number by number, again and again",
            remedy="keep an array or a tensor, and take torch.from_numpy of it",
            ignore="the list is short and made by Python anyway",
            check="hotlap.source.checks.tensors:tensor_of_lists",
            hint=True,
            phases=("data", "other"),
        ),
        Pattern(
            id="tensor_of_tolist",
            says="an array or a tensor becomes a list first, which is read number by number",
            remedy=(
                "drop .tolist(): torch.from_numpy(array) shares its memory, and .float() behind it "
                "gives the dtype that a list of numbers becomes; a tensor is one already"
            ),
            ignore="it is short",
            check="hotlap.source.checks.tensors:tensor_of_tolist",
            hint=True,
            phases=("data", "other"),
        ),
        Pattern(
            id="tensor_of_arrays",
            says="a list of arrays is read number by number",
            remedy="torch.from_numpy(np.stack(arrays))",
            ignore="there are only a few small arrays",
            check="hotlap.source.checks.tensors:tensor_of_arrays",
            phases=("data", "other"),
        ),
        Pattern(
            id="tensors_one_by_one",
            says="a batch is put together of tensors that are made one by one",
            remedy="collect the values in one array (np.stack, np.array) and convert that once",
            ignore="there are only a few",
            check="hotlap.source.checks.tensors:tensors_one_by_one",
            hint=True,
            phases=("data", "other"),
        ),
        Pattern(
            id="array_copied",
            says="torch.tensor copies the array",
            remedy="torch.from_numpy or torch.as_tensor, where the array is not written to later",
            ignore="the array is written to later, or is small",
            check="hotlap.source.checks.tensors:array_copied",
            hint=True,
            phases=("data", "other"),
        ),
    ),
    examples=(
        Example(
            "import numpy as np\nimport torch\n\nx = torch.tensor(np.stack(rows))\n",
            "import numpy as np\nimport torch\n\nx = torch.from_numpy(np.stack(rows))\n",
        ),
        Example(
            "import numpy as np\n"
            "import torch\n"
            "\n"
            "x = torch.tensor([frame.astype(np.float32) for frame in frames])\n",
            "import numpy as np\n"
            "import torch\n"
            "\n"
            "x = torch.from_numpy(np.stack([frame.astype(np.float32) for frame in frames]))\n",
        ),
        Example(
            "import numpy as np\nimport torch\n\n"
            "x = torch.tensor(np.stack(rows), dtype=torch.float32)\n",
        ),
        Example(
            "import torch\n\nx = torch.tensor([1.0, 2.0])\n",
        ),
        Example(
            "import torch\n\nx = torch.tensor(self.buffer)\nself.buffer[:] = 0\n",
        ),
    ),
    grants=(("tensor_from_numpy", False),),
)
