"""Replays of recorded traces."""
