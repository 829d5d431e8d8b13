"""The recipe written into source: what each move needs there, as small changes to the text."""
