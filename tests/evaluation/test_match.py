from dataclasses import replace

import numpy as np
import pytest

from splendor_env.agents import make_agent
from splendor_env.core.actions import ACTION_NAMES
from splendor_env.core.batch import deal_games
from splendor_env.core.state import GAME, SplendorError, standard
from splendor_env.evaluation import play_match, play_specs
from splendor_env.evaluation.arena import one_against_rest, play_games
from splendor_env.evaluation.statistics import Sprt, cluster_bootstrap_interval, wilson_interval
from splendor_env.record import read_records
from tests.evaluation.agents import Cheat, Fainting, FirstLegal, Peeker


def without_time(result):
    return replace(result, seconds=0.0, seconds_per_decision=0.0, seconds_per_decision_against=0.0)


def make_pretrained():
    pytest.importorskip("onnxruntime")
    return make_agent("pretrained")


@pytest.mark.parametrize("num_players", [2, 3, 4])
@pytest.mark.parametrize("make", [lambda: make_agent("greedy"), make_pretrained, Peeker])
@pytest.mark.filterwarnings("ignore::splendor_env.agents.layouts.PolicyWarning")
def test_identical_deterministic_agents_score_exactly_one_nth(num_players, make):
    rules = standard(num_players, target_points=6)
    result = play_match(make(), make(), rules, 25 * num_players)
    assert result.win_share == 1 / num_players
    assert result.points == result.points_against
    assert result.cards == result.cards_against and result.nobles == result.nobles_against
    assert len({seat.win_share for seat in result.by_seat}) > 1
    assert result.illegal == result.illegal_against == 0 and result.first_illegal is None


def test_greedy_beats_random():
    result = play_specs("greedy", "random", standard(2), 400)
    assert result.win_share >= 0.97
    assert result.low < result.win_share <= result.high
    assert (result.agent, result.against, result.games) == ("greedy", "random", 400)
    assert 20 < result.rounds < 40 and result.points >= 15 > result.points_against


def test_random_is_no_better_than_itself():
    result = play_specs("random", "random", standard(3), 600)
    assert result.low < 1 / 3 < result.high


@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_games_are_rounded_up_to_full_rotations(num_players):
    result = play_specs("greedy", "greedy", standard(num_players, max_rounds=2), 7)
    assert result.games == -(-7 // num_players) * num_players
    assert [seat.seat for seat in result.by_seat] == list(range(num_players))
    assert {seat.games for seat in result.by_seat} == {result.games // num_players}


@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_a_truncated_game_counts_one_nth(num_players):
    result = play_specs("greedy", "random", standard(num_players, max_rounds=3), 24)
    assert result.truncated == result.games == 24
    assert result.win_share == 1 / num_players
    assert result.ties == result.stalemates == 0 and result.rounds == 3


def test_a_stalemate_is_a_result_and_here_mostly_a_tie():
    # Twelve tokens taken three at a time leave too few piles for a fourth take.
    rules = standard(
        2, token_limit=20, reserve_limit=0, gold_tokens=0, take_fewer=2, take_two_minimum=7
    )
    result = play_match(FirstLegal(), FirstLegal(), rules, 20)
    assert 0 < result.ties <= result.stalemates < 20
    assert result.truncated == 0


@pytest.mark.parametrize("action", [None, -1, 78, 10**12])
def test_an_illegal_action_is_counted_and_forfeits_the_game(action):
    rules = standard(3)
    result = play_match(Cheat(action), FirstLegal(), rules, 9)
    assert (result.illegal, result.illegal_against) == (9, 0)
    assert result.win_share == 0 and result.rounds == 3 and result.ties == 0
    assert result.first_illegal.startswith("cheat in game 0, seat 0, round 3: illegal action")
    assert "legal: take" in result.first_illegal


def test_an_opponents_illegal_action_leaves_the_victory_to_the_others():
    for num_players in (2, 3, 4):
        result = play_match(
            FirstLegal(), Cheat(), standard(num_players), 2 * num_players, games_at_once=3
        )
        assert (result.illegal, result.illegal_against) == (0, 2 * num_players)
        assert result.win_share == pytest.approx(1 / (num_players - 1))


def test_failures_are_counted_apart_and_forfeit_just_as_well():
    rules = standard(2)
    result = play_match(Fainting(), FirstLegal(), rules, 12)
    assert (result.failed, result.illegal, result.win_share) == (6, 6, 0)
    assert (result.failed_against, result.illegal_against) == (0, 0)
    assert result.first_failure == "fainting in game 0, seat 0, round 3: fell asleep"
    where = "fainting in game 1, seat 1, round 3"
    assert result.first_illegal.startswith(f"{where}: illegal action -1; legal: ")
    against = play_match(FirstLegal(), Fainting(), rules, 12)
    assert (against.failed, against.illegal) == (0, 0)
    assert (against.failed_against, against.illegal_against, against.win_share) == (6, 6, 1)
    honest = play_match(FirstLegal(), FirstLegal(), standard(2, max_rounds=3), 4)
    assert (honest.failed, honest.failed_against, honest.first_failure) == (0, 0, None)


def test_an_agent_that_wants_to_is_told_how_each_of_its_games_ended():
    class Listener(FirstLegal):
        def __init__(self):
            super().__init__()
            self.ends = {}

        def end_games(self, game_id, results):
            assert len(game_id) == len(results) and not set(game_id.tolist()) & set(self.ends)
            self.ends |= dict(zip(game_id.tolist(), results, strict=True))

    rules = standard(3, target_points=4, max_rounds=60)
    judged, opponent = Listener(), Listener()
    result = play_match(judged, opponent, rules, 30, games_at_once=7)
    assert sorted(judged.ends) == sorted(np.unique(judged.game_id))
    assert sorted(opponent.ends) == sorted(np.unique(opponent.game_id))
    shares = [
        (game % 3 in end["winners"]) / len(end["winners"]) if end["winners"] else 1 / 3
        for game, end in judged.ends.items()
    ]
    assert np.mean(shares) == pytest.approx(result.win_share)
    points = [end["points"][game % 3] for game, end in judged.ends.items()]
    assert np.mean(points) == pytest.approx(result.points)
    assert np.mean([end["rounds"] for end in judged.ends.values()]) == result.rounds
    reasons = [end["end_reason"] for end in judged.ends.values()]
    assert reasons.count("target") > 0
    assert reasons.count("round_limit") == result.truncated

    judged = Listener()
    play_match(judged, Cheat(), rules, 3)
    assert judged.ends == {
        game * 3 + game: {
            "end_reason": "forfeit",
            "rounds": 3,
            "points": [0, 0, 0],
            "winners": [seat for seat in range(3) if seat != (1 if game == 0 else 0)],
        }
        for game in range(3)
    }


@pytest.mark.parametrize("answer", [np.zeros(1, np.float32), np.zeros((1, 1), int), [0, 0, 0, 0]])
def test_an_answer_that_is_not_one_integer_for_each_game_is_refused(answer):
    agent = FirstLegal()
    agent.act = lambda games, rules, game_id: answer
    with pytest.raises(SplendorError, match="'first legal' must answer with 1 integers"):
        play_match(agent, FirstLegal(), standard(2), 2)


def test_agents_see_neither_seed_nor_deck_nor_anothers_blind_reserve():
    class Reserver(FirstLegal):
        def choose(self, mask, games):
            blind = [ACTION_NAMES.index(f"reserve deck {level}") for level in (1, 2, 3)]
            return np.where(
                mask[:, blind].any(1), np.array(blind)[mask[:, blind].argmax(1)], mask.argmax(1)
            )

    rules = standard(2, max_rounds=6)
    judged, opponent = FirstLegal(), Reserver()
    play_match(judged, opponent, rules, 2 * 50, seed=5)
    deals = np.zeros(50, GAME)
    deal_games(deals, rules, np.uint64(5))
    assert not np.isin(judged.games["seed"], deals["seed"]).any()
    assert len(np.unique(judged.games["seed"])) > 0.9 * len(judged.games) / 2

    # The opponent holds one card all the time; the judged agent is shown another at each look.
    def first_reserve(agent, game, seat):
        rows = agent.games[agent.game_id // 2 == game]
        cards = rows["reserved"][:, seat, 0]
        return set(cards[cards >= 0].tolist())

    own = [first_reserve(opponent, game, seat=1) for game in range(0, 100, 2)]
    shown = [first_reserve(judged, game, seat=1) for game in range(0, 100, 2)]
    assert {len(cards) for cards in own} == {1}
    assert np.mean([len(cards) for cards in shown]) > 3


def test_an_agent_cannot_change_the_game_it_is_asked_about():
    class Vandal(FirstLegal):
        def act(self, games, rules, game_id):
            actions = super().act(games, rules, game_id)
            games["points"] = 40
            return actions

    rules = standard(2, max_rounds=5)
    honest = play_match(FirstLegal(), FirstLegal(), rules, 4)
    assert without_time(play_match(Vandal(), FirstLegal(), rules, 4)) == without_time(honest)


def test_the_result_does_not_depend_on_the_games_at_once():
    results = [
        without_time(
            play_match(
                make_agent("greedy"), Peeker(), standard(3), 60, seed=3, games_at_once=games_at_once
            )
        )
        for games_at_once in (1, 7, 1024)
    ]
    assert results[0] == results[1] == results[2]


def test_no_more_games_are_under_way_than_allowed_and_each_seat_of_a_game_has_an_id():
    judged, opponent = FirstLegal(), FirstLegal()
    progress = []
    rules = standard(3, max_rounds=4)
    play_match(
        judged,
        opponent,
        rules,
        30,
        games_at_once=5,
        progress=lambda done, total: progress.append((done, total)),
    )
    assert max(len(games) for games, _ in judged.asked + opponent.asked) <= 5
    assert progress == sorted(progress) and progress[-1] == (30, 30)
    ids = np.concatenate((np.unique(judged.game_id), np.unique(opponent.game_id)))
    assert sorted(ids) == list(range(90))


def test_every_pairing_meets_the_same_deals():
    first, second = FirstLegal(), FirstLegal()
    rules = standard(2, max_rounds=1)
    play_match(first, make_agent("random"), rules, 20, seed=9)
    play_match(second, make_agent("greedy"), rules, 40, seed=9)
    opening = first.games[first.game_id % 4 == 0]
    assert len(opening) == 10
    later = second.games[second.game_id % 4 == 0]
    assert (opening["market"] == later["market"][:10]).all()
    assert (opening["nobles"] == later["nobles"][:10]).all()
    assert len(np.unique(later["market"], axis=0)) == 20


def test_equal_seeds_give_equal_results_and_other_seeds_others():
    results = [
        without_time(play_specs("random", "greedy", standard(2, max_rounds=20), 40, seed))
        for seed in (1, 1, 2)
    ]
    assert results[0] == results[1]
    assert results[0].points_against != results[2].points_against


def test_nonsense_is_refused():
    agent = FirstLegal()
    for num_games in (0, 2.5, "3", None, True, 10**6 + 1, 10**12):
        message = f"games must be an integer 1 to 1000000, not {num_games!r}"
        with pytest.raises(SplendorError, match=message):
            play_match(agent, agent, standard(2), num_games)
    with pytest.raises(SplendorError, match="games_at_once must be at least 1, not 0"):
        play_match(agent, agent, standard(2), 1, games_at_once=0)
    with pytest.raises(SplendorError, match="seed must be an integer"):
        play_match(agent, agent, standard(2), 1, seed=-1)
    with pytest.raises(SplendorError, match="seats must be one or rest, not 'both'"):
        play_match(agent, agent, standard(2), 1, seats="both")


def test_the_rules_are_named_in_the_result():
    assert play_specs("greedy", "greedy", standard(2), 2).rules == "standard"
    changed = play_specs("greedy", "greedy", standard(2, max_rounds=2), 2)
    assert changed.rules == "standard with max_rounds=2"


def test_the_figures_are_means_over_the_games_and_seats_of_each_side():
    rules = standard(3, target_points=8)
    result = play_match(make_agent("greedy"), make_agent("builder"), rules, 60, seed=2)
    seating = one_against_rest(rules, 60)
    agents = (make_agent("greedy"), make_agent("builder"))
    games = play_games(agents, seating, rules, 2).results
    is_own = games["agents"][:, :3] == 0
    for name, field in (("points", "points"), ("cards", "num_cards"), ("nobles", "nobles")):
        values = games[field][:, :3]
        assert getattr(result, name) == pytest.approx(values[is_own].mean())
        assert getattr(result, f"{name}_against") == pytest.approx(values[~is_own].mean())
    share = games["share"][:, :3][is_own]
    assert result.win_share == pytest.approx(share.mean())
    assert (result.low, result.high) == wilson_interval(result.win_share, 60)
    expected = cluster_bootstrap_interval(share, games["deal"])
    assert (result.bootstrap_low, result.bootstrap_high) == pytest.approx(expected)
    for seat in result.by_seat:
        assert seat.win_share == pytest.approx(share[is_own[:, seat.seat]].mean())
    assert 0 < result.seconds_per_decision < result.seconds
    assert 0 < result.seconds_per_decision_against < result.seconds


def test_the_rest_against_one_is_the_same_match_seen_from_the_other_side():
    rules = standard(4, target_points=8)
    greedy, builder = make_agent("greedy"), make_agent("builder")
    one = play_match(greedy, builder, rules, 40, seed=3)
    rest = play_match(builder, greedy, rules, 40, seed=3, seats="rest")
    assert (one.seats, rest.seats) == ("one", "rest")
    assert rest.win_share == pytest.approx((1 - one.win_share) / 3)
    assert rest.low == pytest.approx((1 - one.high) / 3)
    assert rest.high == pytest.approx((1 - one.low) / 3)
    for name in ("points", "cards", "nobles"):
        assert getattr(rest, name) == getattr(one, f"{name}_against")
        assert getattr(rest, f"{name}_against") == getattr(one, name)
    assert [seat.games for seat in one.by_seat] == [10] * 4
    assert [seat.games for seat in rest.by_seat] == [30] * 4
    assert sum(seat.win_share for seat in rest.by_seat) / 4 == pytest.approx(rest.win_share)


def test_a_seat_of_the_rest_cannot_have_more_than_its_part_of_the_victory():
    rules = standard(4, target_points=4)
    # A few deals, of which the one loses all: the interval must not pass what the rest can share.
    for num_deals in (1, 2, 5):
        result = play_match(
            make_agent("racer"), make_agent("random"), rules, 4 * num_deals, seats="rest"
        )
        mirrored = play_match(make_agent("random"), make_agent("racer"), rules, 4 * num_deals)
        assert result.win_share > 0.3
        assert 0 <= result.bootstrap_low < result.win_share <= result.bootstrap_high <= 1 / 3
        assert result.bootstrap_high == (1 - mirrored.bootstrap_low) / 3
        assert result.bootstrap_low == (1 - mirrored.bootstrap_high) / 3


def test_copies_of_an_agent_are_equals_however_the_seats_are_split():
    rules = standard(3, target_points=6)
    result = play_match(make_agent("greedy"), make_agent("greedy"), rules, 60, seats="rest")
    assert result.win_share == 1 / 3


def test_a_forfeit_of_one_of_several_copies_is_counted_for_its_side():
    rules = standard(3)
    result = play_match(Cheat(), FirstLegal(), rules, 9, seats="rest")
    assert (result.illegal, result.illegal_against) == (9, 0)
    # Of the two cheats one loses, the other shares with the opponent.
    assert result.win_share == pytest.approx(1 / 4)


def test_a_recorded_match_has_the_same_figures(tmp_path):
    rules = standard(2, target_points=6)
    file = tmp_path / "games.jsonl"
    spec = "tests.evaluation.agents:fainting"
    plain = play_specs(spec, "greedy", rules, 12)
    recorded = [play_specs(spec, "greedy", rules, 12, record=file) for _ in range(2)]
    assert without_time(recorded[0]) == without_time(recorded[1]) == without_time(plain)
    assert recorded[0].seconds_per_decision == recorded[1].seconds_per_decision
    assert (plain.failed, plain.illegal) == (6, 6)
    assert plain.first_failure == f"{spec} in game 0, seat 0, round 3: fell asleep"


def test_a_sequential_test_ends_the_match_when_it_has_decided(tmp_path):
    rules = standard(3, target_points=6)
    seating = one_against_rest(rules, 300)
    agents = (make_agent("builder"), make_agent("greedy"))
    games = play_games(agents, seating, rules, 1).results
    own_share = games["share"][np.arange(300), np.tile([0, 1, 2], 100)]
    test = Sprt(0.05, 0.05, 1 / 3, 0.4)
    assert test.update(own_share.reshape(-1, 3).mean(1)) == "accept"
    num_games = 3 * test.num_deals
    assert 9 < num_games < 300

    file = tmp_path / "games.jsonl"
    play_specs("builder", "greedy", rules, 9, 1, record=file)  # its games count too
    for record in (None, file, file):
        result = play_specs("builder", "greedy", rules, 300, 1, sprt=(1 / 3, 0.4), record=record)
        assert (result.sprt.decision, result.sprt.deals) == ("accept", test.num_deals)
        assert result.sprt.llr == pytest.approx(test.llr) and test.llr > result.sprt.upper
        assert result.games == num_games
        assert result.win_share == pytest.approx(own_share[:num_games].mean())
    assert num_games <= len(list(read_records(file))) < 300
    assert play_specs("builder", "greedy", rules, 300, 1).sprt is None


def test_a_sequential_test_may_stay_open():
    rules = standard(2, target_points=4)
    result = play_specs("greedy", "greedy", rules, 8, sprt=(0.5, 0.53))
    assert (result.sprt.decision, result.sprt.deals, result.games) == (None, 4, 8)
    assert result.sprt.lower < result.sprt.llr < result.sprt.upper
    with pytest.raises(SplendorError, match="0 <= h0 < h1 <= 1"):
        play_specs("greedy", "greedy", rules, 8, sprt=(0.53, 0.5))
