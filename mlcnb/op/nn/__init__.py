"""Operators of neural networks: convolution, pooling, normalisation, activation, loss."""
