"""What is true: values and rules, with no I/O, no clock and no randomness."""
