"""Running the user's command as a child, and racing two of them."""
