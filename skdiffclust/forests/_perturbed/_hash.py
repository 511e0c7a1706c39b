"""Constants of the hash that numba and torch share, and the seed it starts from."""

import threading
from numbers import Integral

import numpy as np
from sklearn.utils import check_random_state

# splitmix64 (Steele, Lea, Flood 2014) for the keys of rows ...
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_A = np.uint64(0xBF58476D1CE4E5B9)
MIX_B = np.uint64(0x94D049BB133111EB)
ROW = np.uint64(0xD1B54A32D192ED03)
# ... and two rounds of 32-bit multiplication, which vectorises, for the pairs of a row.
COLUMN = np.uint32(0x9E3779B1)
FIRST = np.uint32(0x21F0AAAD)
SECOND = np.uint32(0xD35A2D97)


_OF_THREAD = threading.local()


def draw_seed(random_state):
    """Draw the 64-bit seed of a stream of noise from a `random_state`, as uint64."""
    if isinstance(random_state, Integral):
        # Seeding one again takes 2 µs, and a new one 120.
        if not hasattr(_OF_THREAD, "generator"):
            _OF_THREAD.generator = np.random.RandomState()
        _OF_THREAD.generator.seed(random_state)
        random_state = _OF_THREAD.generator
    generator = check_random_state(random_state)
    low, high = generator.randint(0, 2**32, size=2, dtype=np.uint64)
    return np.uint64(low | (high << np.uint64(32)))
