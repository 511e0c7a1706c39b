"""What follows from a spanning tree: linkage, cuts, the number of clusters."""
