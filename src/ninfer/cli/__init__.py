"""One file a command; only commands that compute import torch."""
