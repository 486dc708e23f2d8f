"""What runs compiled programs: threads, native graphs, tensors, devices and executables."""
