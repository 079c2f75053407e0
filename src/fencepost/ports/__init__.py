"""What we ask for: protocols in the model's words."""
