"""What all front ends share: what is known of tensors, folding, limits, names, errors."""
