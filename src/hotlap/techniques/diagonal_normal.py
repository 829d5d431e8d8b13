"""Normal distributions of independent elements, without a covariance matrix."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Describe independent normal variables without a covariance matrix",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.ADVICE,),
    inference=True,
    why=(
        "MultivariateNormal factorises its covariance matrix (Cholesky), and solves triangular "
        "systems for each density and divergence: n cubed operations for n variables, and their "
        "gradients. Where the matrix is diagonal, the variables are independent: a Normal for each "
        "of them, joined by Independent, has the same density with n operations."
    ),
    changes="Sums are taken in another order. A sample takes the same random numbers.",
    avoid="Leave the matrix where elements off its diagonal are learned, or differ from zero.",
    claims=(Claim("goes beyond the articles", "torch.distributions documentation"),),
    patterns=(
        Pattern(
            id="diagonal_covariance",
            says="a normal distribution factorises a matrix that is diagonal",
            remedy="Independent(Normal(loc, std), 1) of torch.distributions: the same density",
            ignore="it has only a few variables, and is rarely made",
            check="hotlap.source.checks.distributions:diagonal_covariance",
            phases=("forward", "other"),
            differentiated=True,
        ),
    ),
    examples=(
        Example(
            "import torch\n"
            "from torch.distributions import MultivariateNormal\n"
            "\n"
            "posterior = MultivariateNormal(mu, torch.diag_embed(logvar.exp()))\n",
            "import torch\n"
            "from torch.distributions import Independent, Normal\n"
            "\n"
            "posterior = Independent(Normal(mu, (0.5 * logvar).exp()), 1)\n",
        ),
        Example(
            "from torch.distributions import MultivariateNormal\n"
            "\n"
            "posterior = MultivariateNormal(mu, scale_tril=factor)\n",
        ),
    ),
)
