"""Operators that pick elements by position: slices and take."""
