"""The hash behind every draw. Nothing else in the core is random.

A draw is a pure function of (seed, stream, position in the stream): nothing has to be stored to
know the future of a game, and hiding the future from a search means replacing one seed.
"""

import hashlib

import numpy as np

from splendor_env.core._jit import jit
from splendor_env.core.state import SplendorError

NOBLE_STREAM = 3
"""Streams 0 to 2 are the decks of the three levels; this one chooses the nobles."""
SEED_STREAM = 4
"""Stream that derives the seed of one game from another seed."""
HIDDEN_STREAM = 5
"""Stream that resamples hidden cards."""
CHOICE_STREAM = 6
"""Stream of the random agent."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)


def check_seed(seed: object) -> np.uint64:
    """A user's seed as the core takes it.

    Raises:
        SplendorError: Not an integer of 64 bits.
    """
    is_integer = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if not is_integer or not 0 <= seed < 2**64:  # type: ignore[operator]
        raise SplendorError(f"seed must be an integer 0 to 2**64 - 1, not {seed!r}")
    return np.uint64(seed)  # type: ignore[arg-type]


def secret_key(seed: np.uint64) -> np.uint64:
    """What agents are shown is drawn from this key, in place of a seed that decides real cards.

    `hash_seed` can be inverted, and agents see its results: in the seeds of the games that they are
    shown, and in their own. From there a way leads back to this key, but not to the seed.
    """
    content = int(seed).to_bytes(8, "little")
    digest = hashlib.blake2b(content, digest_size=8, person=b"hidden cards").digest()
    return np.uint64(int.from_bytes(digest, "little"))


@jit
def hash_seed(seed, stream, position):
    """64 random bits for a place in a stream.

    The seed is mixed before the position meets it, else neighbouring seeds would share places.
    """
    return _mix(_mix(seed + _GOLDEN * (np.uint64(stream) + np.uint64(1))) ^ np.uint64(position))


@jit
def _mix(bits):
    """One step of SplitMix64 (Steele, Lea and Flood 2014), whose finalizer is Stafford's 13th."""
    bits = bits + _GOLDEN
    bits = (bits ^ (bits >> _S30)) * _MIX_1
    bits = (bits ^ (bits >> _S27)) * _MIX_2
    return bits ^ (bits >> _S31)


@jit
def draw_below(seed, stream, position, bound):
    """A uniform int64 below `bound` (bound < 2**31; the bias is below bound / 2**32)."""
    return np.int64(((hash_seed(seed, stream, position) >> _S32) * np.uint64(bound)) >> _S32)
