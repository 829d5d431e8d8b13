"""Figures of `hotlap.data`."""
