"""Exact minimum spanning trees: of points, distances, or a sparse graph."""
