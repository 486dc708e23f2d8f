"""Operators that move elements: reshape, join, repeat, pad, layout, gather, scatter."""
