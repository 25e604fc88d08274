"""The nine scenarios of the design (requirements M), each played over HTTP on a server with little room."""
