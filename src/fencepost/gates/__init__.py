"""Where writes pass: each gate compares the fence at the write target."""
