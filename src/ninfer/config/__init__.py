"""Options and model geometry: parsed once, never changed."""
