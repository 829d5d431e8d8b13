"""Whatever a file holds, lint judges it or says that it cannot."""

import ast
import io
import tokenize
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hotlap.source.config import Config
from hotlap.source.lint import BROKEN, Spot, lint, lint_file
from source.labelled import BAD, SCRIPTS

ALL = Config(Path(), hints=True)
REAL = [path.read_bytes() for path in (*BAD[::3], *SCRIPTS[::3])]
FEW = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))


def judged(content):
    """The spots of a file with this content; torch is named, so that every check runs."""
    spots = lint_file(Path("x.py"), content, ALL)
    assert all(isinstance(spot, Spot) and spot.line >= 1 and spot.column >= 1 for spot in spots)
    return [spot.id for spot in spots]


@FEW
@given(st.binary(max_size=300))
def test_random_bytes(content):
    judged(b"import torch\n" + content)
    judged(content)


@FEW
@given(st.text(max_size=200))
def test_random_text(text):
    judged(("import torch\n" + text).encode("utf-8", "surrogatepass"))


@FEW
@given(st.sampled_from(REAL), st.floats(0, 1))
def test_truncated_files(content, share):
    judged(content[: int(len(content) * share)])


@FEW
@given(st.sampled_from(REAL), st.randoms(use_true_random=False))
def test_files_without_some_of_their_tokens(content, random):
    tokens = list(tokenize.tokenize(io.BytesIO(content).readline))
    lines = content.decode().splitlines(keepends=True)
    for token in sorted(random.sample(tokens, 3), key=lambda token: token.start, reverse=True):
        (row, start), (last, end) = token.start, token.end
        if row == last and 0 < row <= len(lines):
            lines[row - 1] = lines[row - 1][:start] + lines[row - 1][end:]
    judged("".join(lines).encode())


@FEW
@given(st.sampled_from(REAL), st.randoms(use_true_random=False))
def test_files_with_statements_taken_out_or_moved(content, random):
    tree = ast.parse(content)
    bodies = [n.body for n in ast.walk(tree) if isinstance(getattr(n, "body", None), list)]
    for body in random.sample(bodies, min(3, len(bodies))):
        random.shuffle(body)
        if len(body) > 1:
            body.pop()
    judged(ast.unparse(tree).encode())


@FEW
@given(st.sampled_from(REAL), st.randoms(use_true_random=False))
def test_files_whose_names_are_mixed_up(content, random):
    tree = ast.parse(content)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    for node in random.sample(names, len(names) // 4):
        node.id = random.choice(names).id
    judged(ast.unparse(tree).encode())


@pytest.mark.parametrize("content", REAL[:8], ids=range(8))
@pytest.mark.parametrize("ends", [b"\r\n", b"\r"])
def test_line_ends_change_nothing(content, ends):
    assert judged(content.replace(b"\n", ends)) == judged(content)


@pytest.mark.parametrize("content", REAL[:8], ids=range(8))
def test_a_byte_order_mark_changes_nothing(content):
    assert judged(b"\xef\xbb\xbf" + content) == judged(content)


def test_an_encoding_is_read_from_its_declaration():
    text = "# coding: latin-1\nimport torch\nx = 'é'\nwhile x:\n    m = torch.zeros(3).to('cuda')\n"
    assert judged(text.encode("latin-1")) == ["moved_after_creation"]


@pytest.mark.parametrize(
    "content",
    [
        b"import torch\nx = '\xff'\n",
        b"# coding: nonsense\nimport torch\n",
        b"import torch\n\x00\n",
        b"import torch\ndef f(:\n",
        b"import torch\n" + b"(" * 500 + b")" * 500,
        b"import torch\n  x = 1\n",
        b"import torch\nx = '\xed\xa0\x80'\n",
    ],
)
def test_a_broken_file_is_a_finding_of_its_own(content):
    assert judged(content) == [BROKEN]


@pytest.mark.parametrize(
    "code",
    [
        "x = " + "-" * 900 + "1",
        "x = " + "+".join(["a"] * 900),
        "x" + ".a()" * 900,
        "x = " + "[" * 90 + "]" * 90,
        "\n".join("    " * i + f"for a{i} in torch.zeros(3):" for i in range(90)) + "\n" + " " * 400
        + "pass",
        "if a:\n    pass\n" + "elif b:\n    loss.backward()\n" * 900,
        "lambda: " * 80 + "model(x).item()",
    ],
)  # fmt: skip
def test_deep_nesting(code):
    judged(f"import torch\n{code}\n".encode())


def test_the_rest_goes_on_beside_a_broken_file(tmp_path):
    (tmp_path / "a.py").write_text("import torch\ndef f(:\n")
    (tmp_path / "b.py").write_text("import torch\nwhile 1:\n    m = torch.zeros(3).to('cuda')\n")
    found = [(spot.path.name, spot.id) for spot in lint([tmp_path], ALL)]
    assert found == [("a.py", BROKEN), ("b.py", "moved_after_creation")]
