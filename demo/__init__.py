"""The demonstration behind `make demo`: real conversations over HTTP, checked and shown with their reuse."""
