"""Borůvka's algorithm on many dense matrices at once, for the GPU."""
