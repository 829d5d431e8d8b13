"""A model that the user's function builds: recognised as a transformer, or planned as a whole."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from hotlap.core.errors import UsageError
from hotlap.core.protocol import Document
from hotlap.plan.child import ask
from hotlap.plan.number_formats import Precision
from hotlap.plan.reading import hugging_face
from hotlap.plan.shape import Shape

NEAR = 0.01  # of the parameters: a norm or a bias more or less beside the layers


@dataclass(frozen=True)
class Module(Shape):
    """A model of which a dry run is all that is known; it is copied and sharded, never cut up.

    `function`: what builds it, fed sequences of length `given`. `counted`: parameters, `of_layer`:
    of one repeated layer. `work`: forward and backward FLOPs a row. `kept`, `fixed`: bytes of
    activations a row, and beside them.
    """

    function: str = ""
    given: int = 0
    counted: int = 0
    of_layer: int = 0
    work: float = 0.0
    kept: float = 0.0
    fixed: float = 0.0

    @property
    def unit(self) -> str:
        """What a step's speed is counted in."""
        return "samples"

    @property
    def whole(self) -> str:
        """Why it is not cut up."""
        return (
            "the model is no transformer whose layers are known here: only data parallelism (DDP, "
            "FSDP) is planned, without recomputation"
        )

    @property
    def layer_parameters(self) -> int:
        """Of one repeated layer."""
        return self.of_layer

    @property
    def embedding_parameters(self) -> int:
        """What is beside the layers."""
        return self.counted - self.layers * self.of_layer

    @property
    def head_parameters(self) -> int:
        """Counted with the rest."""
        return 0

    def layer_flops(self, rows: int) -> float:
        """An even share of the forward pass."""
        return self.work * rows / (3 * self.layers)

    def attention_flops(self, rows: int) -> float:
        """Not known apart."""
        return 0.0

    def head_flops(self, rows: int) -> float:
        """Not known apart."""
        return 0.0

    def logits(self, rows: int) -> float:
        """Not known apart."""
        return 0.0

    def block_bytes(self, rows: int, ranks: int, number: int) -> float:
        """An even share of what the dry run saw, in the format it was run in."""
        return self.kept * rows / self.layers

    def working_bytes(self, rows: int, ranks: int, number: int) -> float:
        """What did not grow with the rows."""
        return self.fixed


def read_module(function: str, sequence: int, precision: Precision) -> Shape:
    """Build and run the model in a process of its own; a `Shape` where it is a transformer.

    Raises:
        UsageError: the function cannot be found or fails, or the model cannot be run.
    """
    dtype = "float32" if precision is Precision.FP32 else "bfloat16"
    (facts,) = ask([{"describe": function, "sequence": sequence, "dtype": dtype}])
    if "error" in facts:
        raise UsageError(str(facts["error"]))
    rows_are_tokens = bool(facts["sequence"])  # not those of a vision transformer
    found = next(_transformers(facts), None) if rows_are_tokens else None
    if found is not None:
        return replace(found, sequence=facts["sequence"])
    return _module(function, facts)


def _module(function: str, facts: Document) -> Module:
    one, two = (facts[name]["owners"]["activations"] for name in ("one", "two"))
    kept = max(0, two - one)
    return Module(
        max(1, facts["blocks"]), 1, 1, 1, 1,
        function=function,
        given=facts["sequence"],
        counted=facts["parameters"],
        of_layer=facts["block_parameters"],
        work=facts["one"]["flops"] / 2,
        kept=kept,
        fixed=max(0, one - kept),
    )  # fmt: skip


def _transformers(facts: Document) -> Iterator[Shape]:
    """Shapes whose layers have exactly as many parameters, and whose whole has nearly."""
    for shape in (*_configured(facts), *_guessed(facts)):
        exact = shape.layer_parameters == facts["block_parameters"]
        rest = abs(shape.parameters - facts["parameters"])
        if exact and rest <= NEAR * facts["parameters"]:
            yield shape


def _configured(facts: Document) -> Iterator[Shape]:
    """What a Hugging Face config says."""
    try:
        if facts["config"]:
            yield hugging_face(facts["config"], facts["name"])
    except UsageError:
        return


def _guessed(facts: Document) -> Iterator[Shape]:
    """Every shape that its matrices and tables leave open."""
    tables = sorted(map(tuple, facts["embeddings"]), reverse=True)
    if not tables or facts["blocks"] < 2:
        return
    (words, hidden), heads = tables[0], facts["heads"] or 1
    places = [rows for rows, columns in tables[1:] if columns == hidden]
    widths = sorted({out for out, _ in facts["matrices"]} - {hidden}) or [hidden]
    flags = (False, True)
    if hidden % heads:
        return
    for ffn, gated, bias, tied in product(widths, flags, flags, flags):
        yield Shape(
            facts["blocks"], hidden, heads, words, places[0] if places else facts["sequence"],
            facts["keys"], ffn, gated, bias, bool(places), tied,
        )  # fmt: skip
