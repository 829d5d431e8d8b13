"""Start ranks so that a lost one is survived: torchrun with the settings that recover."""
