"""Renders the one event model over HTTP. Parses no model text."""
