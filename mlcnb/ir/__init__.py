"""What graph and loop level share: dtypes, scalar expressions, modules, equality, passes."""
