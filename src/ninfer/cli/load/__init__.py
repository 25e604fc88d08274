"""A scripted multi-turn load on a server: what is asked, what is seen, what it sums up to. Knows HTTP, no engine."""
