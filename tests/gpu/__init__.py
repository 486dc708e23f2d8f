"""What runs on a GPU that is there: `make gpu` runs these, and they are skipped elsewhere."""
