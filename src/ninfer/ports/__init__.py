"""The seams: protocols and frozen messages, no logic."""
