"""Maximum spanning k-forests under must-links, cannot-links and labels."""
