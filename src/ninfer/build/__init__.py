"""Assembles an engine from options."""
