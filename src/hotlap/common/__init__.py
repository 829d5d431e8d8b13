"""What the parts of the library share."""
