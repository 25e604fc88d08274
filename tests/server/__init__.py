"""Tests of the HTTP side, over a scripted engine or the true one on a simulated device."""
