import ast

from hotlap.source.tree import Tree


def test_what_other_tools_hang_on_shared_operators_is_not_walked():
    """`executing` gives every node a `parent`, in IPython for each traceback that it shows."""
    other = ast.parse("done = size > 1 and not size == 2")
    shared = [node for node in ast.walk(other) if isinstance(node, ast.cmpop)]
    for node in ast.walk(other):
        for child in ast.iter_child_nodes(node):
            child.parent = node
    try:
        nodes = Tree(ast.parse("kept = count > 3")).nodes
        assert not set(nodes) & set(ast.walk(other))
        assert [type(node).__name__ for node in nodes] == [
            "Module", "Assign", "Name", "Compare", "Name", "Constant"
        ]  # fmt: skip
    finally:
        for node in shared:
            del node.parent
