"""The command line: one thin function a verb."""
