"""Linear systems that are solved, without the inverse of their matrix."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

_BY_FACTOR = (
    "with L = torch.linalg.cholesky(K) of a covariance, which is positive definite, K^-1 Y is "
    "torch.cholesky_solve(Y, L), and log det K is 2 * L.diagonal(dim1=-2, dim2=-1).log().sum(-1)"
)
technique = Technique(
    title="Solve a linear system instead of inverting its matrix",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.ADVICE,),
    inference=True,
    why=(
        "The inverse of an n x n matrix takes about 2 n^3 operations, a solution with a few right "
        "sides a third of that, and by the Cholesky factor of a positive definite matrix a sixth. "
        "The factor gives the determinant as well, which is otherwise factored for once more. The "
        "backward pass of an inverse multiplies two whole matrices; that of a solution solves once "
        "more with the factor that is there."
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
                f"pinv(X) y; {_BY_FACTOR}"
            ),
            ignore="the matrix is small, or its inverse is made once",
            check="hotlap.source.checks.inverses:multiplied_inverse",
            fault=True,
            hint=True,
        ),
        Pattern(
            id="factored_twice",
            says="the determinant of a matrix is computed apart from the system that it solves",
            remedy=_BY_FACTOR,
            ignore="the matrix is small, or not positive definite",
            check="hotlap.source.checks.inverses:factored_twice",
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
            "def negative_log_likelihood(covariance, y):\n"
            "    weights = torch.linalg.solve(covariance, y)\n"
            "    return y @ weights + torch.logdet(covariance)\n",
            "import torch\n\n\n"
            "def negative_log_likelihood(covariance, y):\n"
            "    factor = torch.linalg.cholesky(covariance)\n"
            "    weights = torch.cholesky_solve(y[:, None], factor)[:, 0]\n"
            "    return y @ weights + 2 * factor.diagonal().log().sum()\n",
        ),
        Example(
            "import torch\n\n\n"
            "def precision(covariance):\n"
            "    return torch.inverse(covariance).diagonal()\n"
        ),
    ),
)
