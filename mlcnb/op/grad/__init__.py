"""Operators of gradients: marks for what is not to be differentiated, and backward operators."""
