"""Speed and memory figures. `python -m bench` prints them; nothing here is a test."""
