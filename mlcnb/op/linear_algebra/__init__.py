"""Operators of linear algebra: matmul, linear, outer, einsum, grouped_matmul."""
