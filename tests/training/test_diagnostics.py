from dataclasses import dataclass

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")
pytest.importorskip("safetensors")

import torch

from splendor_env.core.actions import ACTION_RANGES, BUY, NUM_ACTIONS, PASS, RETURN, TAKE_ALIKE
from splendor_env.core.batch import (
    deal_games,
    observe_games,
    step_games,
    write_action_masks,
    write_victory_shares,
)
from splendor_env.core.observation import OBSERVATION_SIZE
from splendor_env.core.state import GAME, EndReason, SplendorError, rulebook_2014, standard
from splendor_env.evaluation.statistics import wilson_interval
from training.diagnostics import (
    ACTION_COLUMNS,
    PANELS,
    Games,
    calibrate,
    draw_calibration,
    draw_diagnostics,
    play_self,
    summarize,
)
from training.networks import NetworkSizes, PolicyNetwork, win_shares

pytestmark = pytest.mark.usefixtures("torch_as_before")

TRAINER_COLUMNS = {
    "entropy",
    "approx_kl",
    "clip_fraction",
    "explained_variance",
    "policy_loss",
    "value_loss",
    "target_entropy",
    "agreement",
    "aux_loss",
    "learning_rate",
    "steps_per_second",
}


@pytest.fixture(scope="module")
def network():
    before = torch.get_rng_state()
    torch.manual_seed(0)
    network = PolicyNetwork(NetworkSizes("mlp", 16, 1, 1, 8))
    torch.nn.init.normal_(network.action_logits.weight)
    torch.nn.init.normal_(network.value_logits.weight)
    torch.set_rng_state(before)
    return network


@pytest.fixture
def indifferent():
    """Every legal action is as likely, every seat as likely to win."""
    network = PolicyNetwork(NetworkSizes("mlp", 8, 1, 1, 8))
    for layer in (network.action_logits, network.value_logits):
        torch.nn.init.zeros_(layer.weight)
    return network


def png_size(path):
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    return tuple(int.from_bytes(content[start : start + 4], "big") for start in (16, 20))


@pytest.mark.parametrize("rules", [standard(2), rulebook_2014(3), standard(4, max_rounds=20)])
def test_the_record_replays_to_the_same_games(network, rules):
    played = play_self(network, rules, 5, seed=3)
    games = np.zeros(5, GAME)
    deal_games(games, rules, np.uint64(3))
    for index, game, player, action, predicted, entropy in zip(
        range(len(played.game)), *played[2:], strict=True
    ):
        one = games[game : game + 1]
        observation = np.zeros((1, OBSERVATION_SIZE), np.float32)
        mask = np.zeros((1, NUM_ACTIONS), np.int8)
        observe_games(one, rules, one["player"].copy(), observation)
        write_action_masks(one, rules, mask)
        assert one["player"] == player
        assert mask[0, action] == 1
        if index % 10 == 0:
            with torch.no_grad():
                logits, value = network(torch.from_numpy(observation))
            legal = logits[torch.from_numpy(mask) == 1]
            expected = torch.distributions.Categorical(logits=legal).entropy()
            assert predicted == pytest.approx(float(win_shares(value)[0, 0]), abs=1e-5)
            assert entropy == pytest.approx(float(expected), abs=1e-4)
        step_games(one, np.array([action], np.int32), rules, -1)
    assert (games == played.games).all()
    assert (games["end_reason"] != EndReason.RUNNING).all()
    share = np.zeros((5, rules.num_players))
    write_victory_shares(games, rules, share)
    assert (share == played.share).all()
    assert played.share.sum() == pytest.approx(5)
    last = np.flatnonzero(played.game == 4)[-1]
    assert played.observed[last] == share[4, played.player[last]]


def test_the_same_seed_plays_the_same_games(network):
    first, second, other = (play_self(network, standard(2), 3, seed) for seed in (1, 1, 2))
    for one, same in zip(first, second, strict=True):
        assert (one == same).all()
    assert not np.array_equal(first.action, other.action)


def test_a_game_does_not_depend_on_those_beside_it(network):
    many, few = (
        play_self(network, standard(3, max_rounds=20), num_games, 7) for num_games in (9, 2)
    )
    assert (many.games[:2] == few.games).all()
    for game in range(2):
        mine, same = many.game == game, few.game == game
        assert (many.action[mine] == few.action[same]).all()
        assert many.predicted[mine] == pytest.approx(few.predicted[same], abs=1e-6)


def test_actions_are_drawn_by_their_probabilities(indifferent):
    with torch.no_grad():
        indifferent.action_logits.bias[TAKE_ALIKE] = np.log(30)
    played = play_self(indifferent, standard(2, max_rounds=1), 2000, seed=0)
    first = played.action[:2000]  # 10 triples, 10 pairs, 5 single, 5 alike, 15 reserve
    others = 10 + 10 + 5 + 4 + 12 + 3
    expected = 30 / (30 + others)
    assert (first == TAKE_ALIKE).mean() == pytest.approx(expected, abs=4 * (0.25 / 2000) ** 0.5)
    one = (first == 0).mean()
    assert one == pytest.approx(1 / (30 + others), abs=4 * (one / 2000) ** 0.5)


@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_an_indifferent_policy_expects_an_even_share(indifferent, num_players):
    played = play_self(indifferent, standard(num_players), 2, seed=0)
    assert played.predicted == pytest.approx(1 / num_players)
    assert played.entropy[0] == pytest.approx(np.log(45))  # legal first actions
    assert played.entropy.min() >= 0


@pytest.mark.parametrize(("num_games", "seed"), [(0, 0), (-1, 0), (1, -1), (1, 2**64)])
def test_nonsense_is_refused(network, num_games, seed):
    with pytest.raises(SplendorError):
        play_self(network, standard(2), num_games, seed)


@pytest.mark.parametrize("layer", ["action_logits", "value_logits"])
def test_outputs_that_are_nan_are_refused(indifferent, layer):
    torch.nn.init.constant_(getattr(indifferent, layer).bias, float("nan"))
    with pytest.raises(SplendorError, match="not finite"):
        play_self(indifferent, standard(2), 1, 0)


def test_every_kind_of_action_has_a_column():
    assert list(ACTION_COLUMNS) == list(ACTION_RANGES)
    assert len(set(ACTION_COLUMNS.values())) == len(ACTION_COLUMNS)


def test_the_summary_counts():
    games = np.zeros(2, GAME)
    games["rounds"] = 20, 31
    games["num_cards"] = [[10, 12, 0, 0], [6, 8, 0, 0]]
    games["points"] = [[15, 9, 0, 0], [3, 17, 0, 0]]
    games["noble_owner"] = [[0, 0, 1, -1, -1], [-1] * 5]
    games["end_reason"] = EndReason.TARGET, EndReason.ROUND_LIMIT
    played = Games(
        games,
        share=np.array([[1, 0], [0.5, 0.5]]),
        game=np.array([0, 0, 1, 1]),
        player=np.array([0, 1, 0, 1], np.int8),
        action=np.array([0, PASS, RETURN, BUY]),
        predicted=np.array([0.75, 0.15, 0.75, 0.55]),
        entropy=np.array([0.0, 1, 2, 3]),
    )
    summary = summarize(played)
    assert {key: value for key, value in summary.items() if value} == {
        "rounds": 25.5,
        "cards": 9,
        "nobles": 0.75,
        "winner_points": 16,
        "first_seat_share": 0.75,
        "truncated": 0.5,
        "self_play_entropy": 1.5,
        "calibration_error": pytest.approx((0 + 0 + 0.15 + 0.05) / 4),
        "value_explained": pytest.approx(1 - 0.035 / 0.125),
        "action_take_three": 0.25,
        "action_pass": 0.25,
        "action_return": 0.25,
        "action_buy": 0.25,
    }
    assert summary["stalemates"] == 0


@pytest.mark.parametrize(
    ("predicted", "observed", "explained"),
    [
        ([1, 0, 1, 0], [[1, 0], [1, 0]], 1),
        ([0.75, 0.25, 0.75, 0.25], [[1, 0], [1, 0]], 0.75),
        ([0.5, 0.5, 0.5, 0.5], [[1, 0], [0, 1]], 0),
        ([0, 1, 0, 1], [[1, 0], [1, 0]], -3),
        ([0.9, 0.1, 0.7, 0.2], [[0.5, 0.5], [0.5, 0.5]], 0),  # nothing to foresee
    ],
)
def test_the_value_is_compared_with_real_outcomes(predicted, observed, explained):
    played = Games(
        np.zeros(2, GAME),
        share=np.array(observed, float),
        game=np.array([0, 0, 1, 1]),
        player=np.array([0, 1, 0, 1], np.int8),
        action=np.zeros(4, np.int64),
        predicted=np.array(predicted, float),
        entropy=np.zeros(4),
    )
    assert summarize(played)["value_explained"] == pytest.approx(explained)


def test_both_measures_of_the_value_are_in_one_panel():
    [columns] = [columns for columns in PANELS.values() if "value_explained" in columns]
    assert columns == ("explained_variance", "value_explained")


def test_the_summary_of_a_real_policy_is_consistent(network):
    summary = summarize(play_self(network, standard(3), 20, seed=5))
    assert sum(summary[column] for column in ACTION_COLUMNS.values()) == pytest.approx(1)
    assert all(np.isfinite(value) for value in summary.values())
    assert summary["action_pay_gold"] == 0  # not by these rules
    assert 0 <= summary["calibration_error"] <= 1
    assert {column for columns in PANELS.values() for column in columns} <= (
        set(summary) | TRAINER_COLUMNS
    )


def outcomes(rng, probability):
    return (rng.random(len(probability)) < probability).astype(float)


def test_a_calibrated_value_has_no_error_and_a_biased_one_its_bias():
    rng = np.random.default_rng(0)
    predicted = rng.uniform(0.0, 0.8, 200_000)
    game = np.arange(len(predicted))
    assert calibrate(predicted, outcomes(rng, predicted), game).error < 0.005
    biased = calibrate(predicted, outcomes(rng, predicted + 0.15), game)
    assert biased.error == pytest.approx(0.15, abs=0.005)
    assert len(biased.expected) == 8


def test_bins_are_a_tenth_wide():
    predicted = np.array([0.0, 0.05, 0.1, 0.95, 1.0])
    result = calibrate(predicted, np.array([0.0, 1, 0, 1, 1]), np.arange(5))
    assert result.num_decisions.tolist() == [2, 1, 2]
    assert result.expected == pytest.approx([0.025, 0.1, 0.975])
    assert result.observed == pytest.approx([0.5, 0, 1])
    assert result.error == pytest.approx((2 * 0.475 + 0.1 + 2 * 0.025) / 5)


def test_decisions_of_one_game_count_once():
    rng = np.random.default_rng(0)
    won = outcomes(rng, np.full(400, 0.3))
    game = np.arange(400)
    single = calibrate(np.full(400, 0.35), won, game)
    many = calibrate(np.full(8000, 0.35), won.repeat(20), game.repeat(20))
    apart = calibrate(np.full(8000, 0.35), won.repeat(20), np.arange(8000))
    assert many.observed == pytest.approx(single.observed)
    assert many.low == pytest.approx(single.low)
    assert many.high == pytest.approx(single.high)
    assert apart.high - apart.low < 0.3 * (many.high - many.low)


def test_the_interval_holds_the_truth_nineteen_times_in_twenty():
    rng = np.random.default_rng(1)
    num_games, hits = 150, 0
    for _ in range(400):
        length = rng.integers(1, 40, num_games)
        won = outcomes(rng, np.full(num_games, 0.3))
        game = np.arange(num_games).repeat(length)
        result = calibrate(np.full(len(game), 0.35), won[game], game)
        hits += bool(result.low[0] <= 0.3 <= result.high[0])
    assert 0.91 <= hits / 400 <= 0.985


def test_equal_outcomes_are_as_sure_as_their_games_are_many():
    game = np.arange(10).repeat(30)
    result = calibrate(np.full(300, 0.9), np.ones(300), game)
    assert (result.low[0], result.high[0]) == wilson_interval(1.0, 10)


def test_two_games_that_disagree_are_worth_one():
    """The variance of a mean of two comes from one degree of freedom."""
    result = calibrate(np.full(4, 0.5), np.array([1.0, 1, 0, 0]), np.array([0, 0, 1, 1]))
    assert (result.low[0], result.high[0]) == wilson_interval(0.5, 1)


def test_seats_that_cancel_out_are_not_surer_than_independent_ones():
    """Both seats of each game predict the same: one is right, and the mean is 1/2 by necessity."""
    observed, game = np.tile([0.0, 1.0], 50), np.arange(50).repeat(2)
    result = calibrate(np.full(100, 0.5), observed, game)
    assert (result.low[0], result.high[0]) == wilson_interval(0.5, 50)
    observed[0] = 1
    result = calibrate(np.full(100, 0.5), observed, game)
    assert (result.low[0], result.high[0]) == pytest.approx(wilson_interval(0.51, 100))


def test_nothing_cannot_be_calibrated():
    with pytest.raises(SplendorError, match="no decisions"):
        calibrate(np.zeros(0), np.zeros(0), np.zeros(0, np.int64))


def test_the_calibration_is_drawn(network, tmp_path):
    path = tmp_path / "calibration.png"
    draw_calibration(path, play_self(network, standard(2), 10, seed=0))
    assert png_size(path) == (500, 600)
    assert path.stat().st_size > 10_000
    assert [file.name for file in tmp_path.iterdir()] == ["calibration.png"]


@dataclass
class Drawn:
    width: int
    height: int
    num_bytes: int


@pytest.fixture
def draw(tmp_path):
    def call(rows):
        path = tmp_path / "diagnostics.png"
        draw_diagnostics(path, rows)
        return Drawn(*png_size(path), path.stat().st_size)

    return call


def test_the_diagnostics_show_the_panels_that_have_columns(network, draw):
    summary = summarize(play_self(network, standard(2), 4, seed=0))
    trainer = dict.fromkeys(TRAINER_COLUMNS, 0.1)
    rows = [{"step": step, "minutes": 1.0, **summary, **trainer} for step in (1000, 2000, 3000)]
    full = draw(rows)
    assert full.num_bytes > 30_000
    without_trainer = draw([{"step": row["step"], **summary} for row in rows])
    assert without_trainer.height < full.height
    one_panel = draw([{"step": row["step"], "entropy": 1.0} for row in rows])
    assert one_panel.height < without_trainer.height


def test_a_column_may_be_missing_in_some_rows_or_nan(network, draw):
    summary = summarize(play_self(network, standard(2), 2, seed=0))
    rows = [
        {"step": 0, "entropy": 1.0},
        {"step": 1000, **summary},
        {"step": 2000, "explained_variance": float("nan"), "entropy": 0.5},
    ]
    assert draw(rows).num_bytes > 10_000
    assert draw(rows[1:2]).num_bytes > 10_000


def test_numbers_of_players_share_the_panels_but_have_their_own_actions(network, draw):
    summary = summarize(play_self(network, standard(2), 2, seed=0))
    once = draw([{"step": step, **summary} for step in (0, 1000)])
    for_all = {f"{key}_{num_players}p": summary[key] for key in summary for num_players in (2, 3)}
    twice = draw([{"step": step, **for_all} for step in (0, 1000)])
    assert twice.height == once.height + 240


@pytest.mark.parametrize("rows", [[], [{"step": 0, "minutes": 1.0, "win_share_greedy": 0.5}]])
def test_without_figures_nothing_is_drawn(tmp_path, rows):
    draw_diagnostics(tmp_path / "diagnostics.png", rows)
    assert not list(tmp_path.iterdir())
