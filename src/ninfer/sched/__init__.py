"""Choices about turns: queue, lanes, permits, rotation. Never sees a page."""
