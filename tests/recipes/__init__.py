"""Recipes: what agents and chat clients did to other servers, done to this one with a live engine."""
