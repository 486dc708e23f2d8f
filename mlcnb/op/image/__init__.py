"""Operators on images: resize, grid_sample, affine_grid."""
