"""What the user wrote: settings turned into model values, with errors that help."""
