"""`hotlap kernel`: the verdict of the child that checks an operator, and the template."""
