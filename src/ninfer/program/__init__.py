"""Procedures and physical truth: ledgers, units, commits, hand-over. Torch-free."""
