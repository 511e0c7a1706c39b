"""Perturbed forests, their means, and the losses made of them."""
