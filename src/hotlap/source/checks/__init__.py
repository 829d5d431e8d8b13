"""The checks that patterns name: functions of a source and its technique that yield nodes."""
