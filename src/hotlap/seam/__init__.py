"""The few places where torch is touched, inside the user's process."""
