"""Jupyter notebooks as scripts that the ordinary machinery runs, with a way back to the cells."""
