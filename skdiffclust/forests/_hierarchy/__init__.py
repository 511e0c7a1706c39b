"""What a spanning tree says: its linkage, its cuts, how many clusters."""
