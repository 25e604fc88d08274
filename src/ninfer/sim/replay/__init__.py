"""Recorded request traces through the true engine, over a device that only knows which tokens it holds."""
