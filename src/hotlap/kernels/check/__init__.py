"""The child of `hotlap kernel check`: is an operator right, and is it faster than its reference.

`subject` loads the file, `checks` compares with the reference in float64, `memory` watches what the
operator reads and writes, `racing` times it against the reference, eager and compiled.
"""
