"""One file a technique; the file name is its id. Data only."""
