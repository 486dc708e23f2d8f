"""Backends: each turns a PrimFunc into something that runs."""
