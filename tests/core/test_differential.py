"""The core against the independent slow engine, on random games of every rule variant."""

import pytest

from splendor_env.core.state import PRESETS
from tests.differential import play_and_compare, variants

FIRST_SEED = 20_000_000
NUM_CHUNKS = 20
GAMES_PER_CHUNK = 250


@pytest.mark.parametrize("chunk", range(NUM_CHUNKS))
def test_core_plays_like_the_reference(chunk):
    """All fields, masks, winners and rewards agree at every decision; each chunk meets all rules.

    The chunks start at different variants, so that no variant depends on one range of seeds.
    """
    rules_list = variants()
    num_decisions = 0
    for index in range(GAMES_PER_CHUNK):
        seed = FIRST_SEED + chunk * GAMES_PER_CHUNK + index
        num_decisions += play_and_compare(rules_list[(chunk + index) % len(rules_list)], seed)
    # Even a variant of one round has a decision for each seat; most games have dozens.
    assert num_decisions > 20 * GAMES_PER_CHUNK


def test_variants_cover_every_preset_and_player_count():
    """Nothing that a user can name is left out of the comparison."""
    compared = variants()
    for preset in PRESETS.values():
        for num_players in (2, 3, 4):
            assert preset(num_players) in compared
