"""Operators on quantised tensors: integers in, integers out, sums in int32."""
