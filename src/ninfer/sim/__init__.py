"""A simulated device and world; ships with the code."""
