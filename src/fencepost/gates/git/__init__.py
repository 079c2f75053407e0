"""The git gate: a branch and its marks move in one atomic push, each from the value that was expected."""
