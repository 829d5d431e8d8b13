"""The speed claims of well-known articles, measured on this machine."""
