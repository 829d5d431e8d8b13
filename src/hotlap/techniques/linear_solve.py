"""Linear systems that are solved, without the inverse of their matrix."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Solve a linear system instead of inverting its matrix",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.ADVICE,),
    inference=True,
    why=(
        "The inverse of an n x n matrix takes about 2 n^3 operations, a solution with a few right "
        "sides a third of that. The backward pass of an inverse multiplies two whole matrices; "
        "that of a solution solves once more with the factors that are there."
    ),
    changes="The same solution, usually more accurate, with other roundings.",
    avoid="Leave it where the inverse itself is needed, or the matrices are small, such as poses.",
    claims=(
        Claim("goes beyond the articles", "PyTorch documentation, torch.linalg.inv"),
        Claim(
            "goes beyond the articles",
            "Higham 2002, Accuracy and Stability of Numerical Algorithms, section 14.1",
        ),
    ),
    patterns=(
        Pattern(
            id="multiplied_inverse",
            says="a matrix is inverted, of which only products are used",
            remedy=(
                "torch.linalg.solve(K, y) is K^-1 y, and torch.linalg.lstsq(X, y).solution "
                "pinv(X) y; of a positive definite matrix, such as a covariance, also "
                "torch.cholesky_solve(Y, torch.linalg.cholesky(K)), with a matrix Y"
            ),
            ignore="the matrix is small, or its inverse is made once",
            check="hotlap.source.checks.inverses:multiplied_inverse",
            fault=True,
            hint=True,
        ),
    ),
    examples=(
        Example(
            "import torch\n\n\n"
            "def fit(covariance, y):\n"
            "    return y @ torch.inverse(covariance) @ y\n",
            "import torch\n\n\n"
            "def fit(covariance, y):\n"
            "    return y @ torch.linalg.solve(covariance, y)\n",
        ),
        Example(
            "import torch\n\n\n"
            "def precision(covariance):\n"
            "    return torch.inverse(covariance).diagonal()\n"
        ),
    ),
)
