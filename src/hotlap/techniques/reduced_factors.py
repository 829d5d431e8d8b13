"""Decompositions of which no more is computed than is used."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Compute only the factors of a matrix that are used",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.ADVICE,),
    inference=True,
    why=(
        "torch.linalg.svd gives square factors unless full_matrices=False is given: of an m x n "
        "matrix with m much larger than n, U has m^2 elements, of which the first n columns are "
        "those that belong to singular values. Where the values alone are used, no vectors need "
        "be computed."
    ),
    changes="The same values and vectors, with other roundings; vectors may have the other sign.",
    avoid="Leave it where the null space is used, as in the last row of Vh.",
    claims=(
        Claim("goes beyond the articles", "PyTorch documentation, torch.linalg.svd and svdvals"),
    ),
    patterns=(
        Pattern(
            id="full_factors",
            says="square factors of a matrix are computed, of which a part is used",
            remedy=(
                "torch.linalg.svd(x, full_matrices=False) and torch.linalg.qr(x) give the reduced "
                "factors, so that there is nothing to cut off"
            ),
            ignore="the matrix is square, or small",
            check="hotlap.source.checks.factors:full_factors",
            fault=True,
            hint=True,
        ),
        Pattern(
            id="unused_vectors",
            says="a matrix is decomposed, of which the values alone are used",
            remedy=(
                "torch.linalg.svdvals(x), eigvalsh or eigvals compute no vectors (NumPy: "
                "compute_uv=False, eigvalsh, eigvals)"
            ),
            ignore="the matrix is small, or decomposed once",
            check="hotlap.source.checks.factors:unused_vectors",
            fault=True,
            hint=True,
        ),
    ),
    examples=(
        Example(
            "import torch\n\n\n"
            "def orthogonal(update, rank):\n"
            "    u, _, vh = torch.linalg.svd(update)\n"
            "    return u[:, :rank] @ vh[:rank]\n",
            "import torch\n\n\n"
            "def orthogonal(update):\n"
            "    u, _, vh = torch.linalg.svd(update, full_matrices=False)\n"
            "    return u @ vh\n",
        ),
        Example(
            "import torch\n\n\n"
            "def null_space(matrix):\n"
            "    _, _, vh = torch.linalg.svd(matrix)\n"
            "    return vh[-1]\n"
        ),
    ),
)
