"""What keeps going: the only code that waits."""
