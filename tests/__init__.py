"""Tests of mlcnb: the folders mirror those of the package."""
