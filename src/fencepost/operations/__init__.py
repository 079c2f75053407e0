"""What may be asked: one meaning, whatever the door."""
