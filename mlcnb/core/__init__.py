"""What every part stands on, and what knows nothing of tensors or loops."""
