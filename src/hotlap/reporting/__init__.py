"""What hotlap shows: terminal, HTML, JSON."""
