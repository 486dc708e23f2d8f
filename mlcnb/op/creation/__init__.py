"""Tensors from a shape or from a few numbers: full, ones, zeros, eye, arange, tril, windows."""
