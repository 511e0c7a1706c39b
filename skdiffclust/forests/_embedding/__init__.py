"""Learning an encoder through perturbed forests."""
