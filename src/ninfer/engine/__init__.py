"""Requests and time: one control thread, the heartbeat, publication."""
