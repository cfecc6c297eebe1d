"""Expert iteration: its settings, losses, gate and runs, on games of a few rounds."""

import json
import os
import re
import signal
from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch")

import safetensors.torch
import torch

from splendor_env.agents.layouts import PolicyWarning
from splendor_env.core.actions import BUY, RETURN
from splendor_env.core.batch import observe_movers
from splendor_env.core.state import SplendorError, standard
from tests.training.positions import random_positions
from training import expert_iteration, loop
from training import learner as learning
from training import run as runs
from training.checkpoint import load_policy
from training.config import DivergedError, RunConfig, load_run_config
from training.expert_iteration import Config, Learner, challenge
from training.networks import PolicyNetwork, masked_log_probs
from training.teacher import Taught, Window, no_lessons

pytestmark = pytest.mark.usefixtures("torch_as_before")


@pytest.fixture(autouse=True)
def short_games(monkeypatch):
    def rules_in_turn(config):
        counts = (config.num_players,) if config.num_players else (2, 3, 4)
        return [standard(count, target_points=1, max_rounds=10) for count in counts]

    monkeypatch.setattr(RunConfig, "rules_in_turn", rules_in_turn)


@pytest.fixture
def config(tmp_path):
    return Config(
        run_name="test",
        runs_folder=str(tmp_path),
        precision="float32",
        num_games=16,
        rollout_steps=8,
        first_simulations=2,
        num_simulations=2,
        fast_simulations=2,
        window_size=300,
        warm_up=50,
        batch_size=32,
        learning_rate=1e-3,
        total_steps=500,
        layer_size=8,
        card_size=4,
        eval_every=250,
        eval_games=2,
        gate_games=2,
        checkpoint_every=250,
    )


def decide(monkeypatch, *decisions, with_pictures=False):
    """Let the gate say these in turn, then the last one for ever; what it was asked.

    Without pictures, which take most of the time of a tiny run.
    """
    asked = []
    pictures = (loop, "calibration"), (loop, "diagnostics"), (runs, "learning_curve")
    for module, kind in () if with_pictures else pictures:
        monkeypatch.setattr(module, f"draw_{kind}", lambda *args: None)

    def fake(challenger, best, rules, num_games, seed):
        asked.append((weights_of(challenger), weights_of(best), rules, num_games, seed))
        decision = decisions[min(len(asked), len(decisions)) - 1]
        return SimpleNamespace(decision=decision), 0.6

    monkeypatch.setattr(expert_iteration, "challenge", fake)
    return asked


def weights_of(network):
    return {key: value.clone() for key, value in network.state_dict().items()}


def is_same(one, two):
    return one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)


def saved(run):
    """What the run's checkpoint has: tensors, and the other values."""
    [path] = run.glob("resume-*")
    content = path.read_bytes()
    values = json.loads(loop.metadata(content)["values"])
    return safetensors.torch.load(content), values


def part(tensors, name):
    return learning.tensors_of(name, tensors)


def stop_at_first_evaluation(config, number=signal.SIGTERM):
    with pytest.raises(SystemExit) as stopped:
        expert_iteration.train(
            config, on_evaluation=lambda step, shares: os.kill(os.getpid(), number)
        )
    assert stopped.value.code == 128 + number
    return config.run_folder


# ---- settings


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("policy_target", "worst"),
        ("precision", "float16"),
        ("td_lambda", 1.5),
        ("full_share", 0.0),
        ("first_simulations", 1),
        ("num_simulations", 1),
        ("fast_simulations", 1),
        ("ema_decay", -0.1),
        ("lookahead_share", 2.0),
        ("rollout_steps", 0),
        ("trackers", "neptune"),
        ("num_players", 1),
    ],
)
def test_config_refuses_what_is_out_of_range(config, key, value):
    with pytest.raises(SplendorError, match=f"{key}.*{value}"):
        replace(config, **{key: value})


def test_config_refuses_settings_that_contradict_each_other(config):
    with pytest.raises(SplendorError, match="warm_up 301 must be at most window_size = 300"):
        replace(config, warm_up=301)
    with pytest.raises(SplendorError, match=r"num_games 16 must be at least 4 \* num_threads = 20"):
        replace(config, num_threads=5)


@pytest.mark.parametrize(
    ("share", "progress", "expected"),
    [
        (0, 0, 4),
        (0, 0.5, 16),
        (0, 1, 64),
        (0.5, 0.49, 0),
        (0.5, 0.5, 4),
        (0.5, 0.75, 16),
        (1, 1, 4),
    ],
)
def test_simulations_grow_geometrically_after_the_lookahead(config, share, progress, expected):
    config = replace(config, lookahead_share=float(share), first_simulations=4, num_simulations=64)
    run = SimpleNamespace(config=config, progress=lambda: progress)
    assert expert_iteration._Run.num_simulations(run) == expected


# ---- learning


def lessons_of(rules, number=20):
    """Positions with made-up targets, in the types that lessons have."""
    generator = np.random.default_rng(3)
    games = random_positions(rules, number, 7)
    mask = observe_movers(games, rules)[1] == 1
    lessons = no_lessons(number)
    policy = np.where(mask, generator.random(mask.shape), 0)
    policy /= policy.sum(1, keepdims=True)
    lessons.games[:] = games
    lessons.log_policy[:] = np.log(np.maximum(policy, np.exp(-30)))
    lessons.best[:] = (mask * generator.random(mask.shape)).argmax(1)
    count = rules.num_players
    lessons.value[:, :count] = generator.dirichlet(np.ones(count), number)
    lessons.points[:, :count] = generator.integers(20, size=(number, count))
    lessons.rounds[:] = generator.integers(30, size=number)
    lessons.is_full[:] = generator.random(number) < 0.6
    return lessons


def outputs(learner, lessons, rules):
    """Log-probabilities and log-shares of the network, by NumPy."""
    observation, mask = map(torch.from_numpy, observe_movers(lessons.games, rules))
    with torch.no_grad():
        logits, value = learner.network(observation)
        return masked_log_probs(logits, mask).numpy(), value.log_softmax(1).numpy()


def test_reverse_divergence_vanishes_with_its_gradient_at_the_networks_own_policy(config):
    learner = Learner(replace(config, policy_target="reverse", vf_coef=0.0))
    rules = standard(2)
    lessons = lessons_of(rules)
    own = outputs(learner, lessons, rules)[0]
    loss, _ = learner._loss(lessons._replace(log_policy=own), rules)
    assert loss.item() == pytest.approx(0, abs=1e-6)
    for gradient in torch.autograd.grad(loss, learner.parameters):
        assert gradient.abs().max() < 1e-5
    loss, _ = learner._loss(lessons, rules)
    probs = np.exp(own)
    divergence = (probs * (own - lessons.log_policy.astype(np.float32))).sum(1)
    expected = divergence[lessons.is_full].mean()
    assert loss.item() == pytest.approx(expected, rel=1e-4) and expected > 0.1
    gradients = torch.autograd.grad(loss, learner.parameters)
    assert max(gradient.abs().max() for gradient in gradients) > 1e-3


@pytest.mark.parametrize("num_players", [2, 3, 4])
@pytest.mark.parametrize("target", ["best", "improved"])
def test_loss_is_that_of_the_written_out_cross_entropies(config, num_players, target):
    learner = Learner(replace(config, policy_target=target, vf_coef=0.5, aux_coef=0.0))
    rules = standard(num_players)
    lessons = lessons_of(rules)
    loss, statistics = learner._loss(lessons, rules)
    log_probs, log_shares = outputs(learner, lessons, rules)
    is_full = lessons.is_full
    assert 0 < is_full.sum() < len(is_full)
    targets = np.exp(lessons.log_policy.astype(np.float64))
    row = np.arange(len(targets))
    policy_loss = -log_probs[row, lessons.best][is_full].mean()
    if target == "improved":
        policy_loss = -(targets * log_probs).sum(1)[is_full].mean()
    value_loss = -(lessons.value * log_shares)[:, :num_players].sum(1).mean()
    assert loss.item() == pytest.approx(policy_loss + 0.5 * value_loss, rel=1e-4)
    expected = {
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": -(np.exp(log_probs) * log_probs).sum(1).mean(),
        "target_entropy": -(targets * lessons.log_policy).sum(1)[is_full].mean(),
        "agreement": (log_probs.argmax(1) == lessons.best)[is_full].mean(),
    }
    found = dict(zip(expert_iteration._STATISTICS, statistics.tolist(), strict=True))
    assert {key: found[key] for key in expected} == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("target", ["best", "improved", "reverse"])
def test_loss_without_a_full_decision_is_that_of_the_value_alone(config, target):
    learner = Learner(replace(config, policy_target=target, vf_coef=1.0, aux_coef=0.0))
    lessons = lessons_of(standard(2))
    none = lessons._replace(is_full=np.zeros_like(lessons.is_full))
    loss, statistics = learner._loss(none, standard(2))
    found = dict(zip(expert_iteration._STATISTICS, statistics.tolist(), strict=True))
    assert found["policy_loss"] == 0 and loss.item() == pytest.approx(found["value_loss"])


@pytest.mark.parametrize("num_layers", [0, 1])
def test_auxiliary_targets_are_points_of_fifteen_and_rounds_of_thirty(config, num_layers):
    config = replace(config, num_shared_layers=num_layers, num_separate_layers=num_layers)
    learner, rules = Learner(config), standard(3)
    for parameter in learner.modules["auxiliary"].parameters():
        parameter.data.zero_()
    lessons = lessons_of(rules)
    without, statistics = learner._loss(lessons, rules)
    expected = ((lessons.points / 15) ** 2).sum(1) + (lessons.rounds / 30) ** 2
    assert statistics[-1].item() == pytest.approx(expected.mean(), rel=1e-5)
    learner.config = replace(config, aux_coef=2.0)
    loss, _ = learner._loss(lessons, rules)
    assert (loss - without).item() == pytest.approx(2 * expected.mean(), rel=1e-4)


def table_of(rules, number=100, due=0.0):
    window = Window(number)
    window.add(lessons_of(rules, number))
    return SimpleNamespace(rules=rules, window=window, due=due)


def num_steps_of(learner):
    states = list(learner.optimizer.state.values())
    return int(states[0]["step"]) if states else 0


def test_learn_does_nothing_until_the_window_is_warm(config):
    learner = Learner(replace(config, warm_up=101))
    before = weights_of(learner.network)
    table = table_of(standard(2), due=3.0)
    assert learner.learn(table, 0.0) == {}
    assert table.due == 0 and is_same(weights_of(learner.network), before)


def test_learn_makes_as_many_steps_as_are_due_and_keeps_the_rest(config):
    learner, table = Learner(config), table_of(standard(2), due=2.75)
    statistics = learner.learn(table, 0.25)
    assert num_steps_of(learner) == 2 and table.due == 0.75
    assert statistics["learning_rate"] == pytest.approx(0.75 * config.learning_rate)
    assert set(expert_iteration._STATISTICS) <= set(statistics)
    assert learner.learn(table, 0.25) == {}
    assert num_steps_of(learner) == 2 and table.due == 0.75


def test_learn_averages_the_weights_of_all_steps(config):
    learner = Learner(replace(config, ema_decay=0.75, learning_rate=0.01))
    expected = weights_of(learner.network)
    for _ in range(4):
        learner.learn(table_of(standard(2), due=1.0), 0.0)
        for key, weight in learner.network.state_dict().items():
            expected[key] = 0.75 * expected[key] + 0.25 * weight
    for key, mean in learner.average.state_dict().items():
        torch.testing.assert_close(mean, expected[key], atol=1e-6, rtol=1e-5)
    assert not is_same(weights_of(learner.average), weights_of(learner.network))


@pytest.mark.parametrize("target", ["best", "improved", "reverse"])
def test_learn_lowers_the_losses_on_a_window_that_stays(config, target):
    learner = Learner(replace(config, policy_target=target, learning_rate=0.01, aux_coef=0.1))
    table = table_of(standard(2), due=100.0)
    lessons = table.window.take(np.arange(table.window.size))
    before = learner._loss(lessons, table.rules)[1].tolist()
    learner.learn(table, 0.0)
    after = learner._loss(lessons, table.rules)[1].tolist()
    for name, one, two in zip(expert_iteration._STATISTICS, before, after, strict=True):
        assert two < one or "loss" not in name


# ---- the gate


def blind(sizes, buy):
    """A network that looks at nothing, with this logit for buying and 0 for all else."""
    network = PolicyNetwork(sizes)
    for parameter in network.parameters():
        parameter.data.zero_()
    network.action_logits.bias.data[BUY:RETURN] = buy
    return network


@pytest.mark.parametrize("num_players", [2, 3])
def test_challenge_of_itself_is_exactly_even_and_not_accepted(config, num_players):
    network = PolicyNetwork(config.network_sizes())
    rules = standard(num_players, target_points=2, max_rounds=20)
    test, share = challenge(network, deepcopy(network), rules, 60, 5)
    assert share == pytest.approx(1 / num_players)
    assert test.decision != "accept"


@pytest.mark.parametrize("num_players", [2, 3])
def test_challenge_is_decided_soon_between_unequal_networks(config, num_players):
    sizes = config.network_sizes()
    buyer, miser = blind(sizes, buy=10.0), blind(sizes, buy=-10.0)
    rules = standard(num_players, target_points=1, max_rounds=30)
    test, share = challenge(buyer, miser, rules, 4000, 5)
    assert test.decision == "accept" and share > 1.3 / num_players
    assert test.num_deals <= 300
    test, share = challenge(miser, buyer, rules, 4000, 5)
    assert test.decision == "reject" and share < 1 / num_players


# ---- runs


def test_train_writes_everything_that_the_documentation_lists(config, monkeypatch):
    asked = decide(monkeypatch, "accept", with_pictures=True)
    run = expert_iteration.train(config)
    names = {path.name for path in run.iterdir()}
    assert {"config.toml", "versions.json", "policy", "metrics.csv", ".lock"} <= names
    assert {"learning_curve.png", "calibration.png", "diagnostics.png"} <= names
    assert any(name.startswith("events.") for name in names)
    assert load_run_config(run) == replace(config, runs_folder=str(run.parent))
    about = load_policy(run)[1]
    assert about["algorithm"] == "expert_iteration" and about["num_players"] == [2]
    rows = runs.Metrics(run, []).rows
    assert len(rows) == len(asked) >= 2
    last = rows[-1]
    assert last["step"] == about["step"] >= config.total_steps
    assert last["win_share_best"] == 0.6 and 0 <= last["agreement"] <= 1
    assert last["value_loss"] > 0 and last["learning_rate"] < config.learning_rate
    assert about["evaluation"] == {
        name: last[f"win_share_{name}"] for name in ("random", "greedy", "best")
    }


def test_train_an_accepted_network_is_the_policy_and_what_the_next_one_meets(config, monkeypatch):
    asked = decide(monkeypatch, "accept", "reject")
    run = expert_iteration.train(config)
    (first, start, _, num_games, seed), (second, best, _, _, other_seed) = asked[:2]
    assert is_same(start, weights_of(Learner(config).network))
    assert is_same(best, first) and not is_same(second, first)
    assert num_games == config.gate_games
    assert seed == runs.EVALUATION_SEED + runs.Metrics(run, []).rows[0]["step"] + 2**39
    assert other_seed != seed  # and neither is that of an evaluation
    network, about = load_policy(run)
    rows = runs.Metrics(run, []).rows
    assert is_same(weights_of(network), first)
    assert about["step"] == rows[0]["step"] < rows[-1]["step"]
    assert about["evaluation"]["best"] == 0.6  # its own, not that of a later network
    assert about["evaluation"]["random"] == rows[0]["win_share_random"]


@pytest.mark.parametrize("decision", ["reject", None])
def test_train_a_network_that_is_not_accepted_is_not_the_policy(
    config, monkeypatch, decision, capsys
):
    """But it can be had beside it."""
    decide(monkeypatch, decision)
    run = expert_iteration.train(config)
    network, about = load_policy(run)
    assert about["step"] == 0 and about["evaluation"] == {}
    assert is_same(weights_of(network), weights_of(Learner(config).network))
    assert {row["policy_step"] for row in runs.Metrics(run, []).rows} == {0}
    assert "the policy is that of step 0" in " ".join(capsys.readouterr().err.split())
    newest, about = load_policy(run / "newest")
    last = runs.Metrics(run, []).rows[-1]
    assert about["step"] == last["step"]
    assert about["evaluation"]["greedy"] == last["win_share_greedy"]
    assert is_same(weights_of(newest), part(saved(run)[0], "average"))


@pytest.mark.parametrize(
    ("decisions", "is_taken"),
    [
        (("accept", "accept", None), True),
        ((None, "accept", None), True),
        (("accept", "accept", "reject"), False),
        ((None, None, None), False),
    ],
)
def test_train_on_all_player_counts_takes_turns_and_must_lose_at_none(
    config, monkeypatch, decisions, is_taken
):
    decide(monkeypatch, *decisions)
    counts, sizes = [], []
    update = expert_iteration._Run.update

    def spy(run, rules):
        counts.append(rules.num_players)
        steps, statistics = update(run, rules)
        sizes.append([table.window.size for table in run.tables.values()])
        return steps, statistics

    monkeypatch.setattr(expert_iteration._Run, "update", spy)
    config = replace(config, num_players=0, num_games=8, total_steps=900, eval_every=10_000)
    run = expert_iteration.train(config)
    assert counts == [2 + index % 3 for index in range(len(counts))] and len(counts) > 6
    assert min(sizes[-1]) > 0
    about = load_policy(run)[1]
    assert about["num_players"] == [2, 3, 4] and (about["step"] > 0) == is_taken
    [row] = runs.Metrics(run, []).rows
    assert {"win_share_best_2p", "win_share_greedy_3p", "win_share_random_4p"} <= set(row)


def test_train_starts_from_the_weights_of_a_policy(config, monkeypatch):
    asked = decide(monkeypatch, "accept")
    before = expert_iteration.train(config)
    trained = weights_of(load_policy(before)[0])
    asked.clear()
    later = replace(config, run_name="later", seed=5, start=str(before), replay_ratio=0.0)
    run = expert_iteration.train(later)
    assert is_same(asked[0][0], trained) and is_same(asked[0][1], trained)
    tensors, _ = saved(run)
    assert is_same(part(tensors, "network"), trained)
    assert not is_same(trained, weights_of(Learner(later).network))


def test_train_refuses_to_start_from_a_network_of_another_size(config, monkeypatch):
    decide(monkeypatch, "accept")
    run = stop_at_first_evaluation(config)
    other = replace(config, run_name="other", layer_size=16, start=str(run))
    sizes = [re.escape(str(one.network_sizes())) for one in (config, other)]
    with pytest.raises(SplendorError, match=f"has {sizes[0]}, the config asks for {sizes[1]}"):
        expert_iteration.train(other)
    assert not other.run_folder.exists()


def test_train_with_a_limit_of_minutes_goes_on_until_the_first_lessons(config, monkeypatch):
    decide(monkeypatch, "accept")
    run = expert_iteration.train(replace(config, total_steps=10**6, max_minutes=1e-9))
    [row] = runs.Metrics(run, []).rows
    assert 0 < row["step"] < 1000
    assert load_policy(run)[1]["step"] == row["step"]


def test_train_warns_of_a_start_that_was_trained_for_other_rules(config, monkeypatch):
    decide(monkeypatch, "accept")
    run = stop_at_first_evaluation(config)
    other = replace(config, run_name="other", num_players=3, total_steps=20, start=str(run))
    with pytest.warns(PolicyWarning, match=r"was trained for num_players 2 \(here 3\)"):
        expert_iteration.train(other)


def test_train_resumed_goes_on_from_the_step_with_best_and_average(config, monkeypatch):
    asked = decide(monkeypatch, "accept", "reject")
    run = stop_at_first_evaluation(config)
    tensors, values = saved(run)
    [row] = runs.Metrics(run, []).rows
    assert values["best_step"] == row["step"]
    again = expert_iteration._Run(config, run, True, lambda step, shares: None)
    again.close()
    assert again.step == row["step"] and again.best_step == row["step"]
    restored, others = again.state()
    assert is_same(restored, tensors) and others["generator"] == values["generator"]
    assert is_same(part(tensors, "best"), asked[0][0])
    assert is_same(part(tensors, "average"), asked[0][0])
    assert not is_same(part(tensors, "network"), asked[0][0])
    expert_iteration.train(config, resume=True)
    rows = runs.Metrics(run, []).rows
    assert rows[0] == row and rows[-1]["step"] >= config.total_steps
    assert load_policy(run)[1]["step"] == row["step"]


def test_train_a_finished_run_that_goes_on_keeps_the_best_of_its_last_evaluation(
    config, monkeypatch
):
    decide(monkeypatch, "reject", "accept", "reject")
    run = expert_iteration.train(config)
    network, about = load_policy(run)
    assert about["step"] >= config.total_steps
    expert_iteration.train(replace(config, total_steps=750), resume=True)
    later, same = load_policy(run)
    assert len(runs.Metrics(run, []).rows) == 3
    assert same["step"] == about["step"] and is_same(weights_of(later), weights_of(network))


@pytest.mark.parametrize(("key", "value"), [("layer_size", 16), ("num_players", 3), ("seed", 1)])
def test_train_resume_with_other_fixed_settings_is_refused(config, monkeypatch, key, value):
    decide(monkeypatch, "reject")
    config = replace(config, total_steps=60)
    expert_iteration.train(config)
    with pytest.raises(SplendorError, match=f"{key} = .*cannot resume with {value!r}"):
        expert_iteration.train(replace(config, **{key: value}, total_steps=90), resume=True)


def test_train_repeats_by_its_seed_on_two_threads(config, monkeypatch):
    decide(monkeypatch, "accept")
    config = replace(config, num_threads=2, full_share=0.7)
    first, same, other = (
        saved(expert_iteration.train(replace(config, run_name=name, seed=seed)))
        for name, seed in (("a", 5), ("b", 5), ("c", 6))
    )
    assert is_same(first[0], same[0]) and first[1]["generator"] == same[1]["generator"]
    assert not is_same(first[0], other[0])


def test_train_with_lookahead_first_changes_to_search(config, monkeypatch):
    decide(monkeypatch, "accept")
    asked = []
    for kind in ("lookahead", "search"):
        make = getattr(expert_iteration, f"{kind}_teacher")

        def spy(*args, kind=kind, make=make):
            asked.append((kind, args[1:-1]))
            return make(*args)

        monkeypatch.setattr(expert_iteration, f"{kind}_teacher", spy)
    config = replace(
        config,
        lookahead_share=0.5,
        fast_simulations=3,
        full_share=0.5,
        temperature=1.5,
        gumbel_scale=1.0,
    )
    run = expert_iteration.train(config)
    full = [one for one in asked if one != ("search", (3, 1.5, 1.0))]
    change = full.index(("search", (2, 1.5, 1.0)))
    assert set(full[:change]) == {("lookahead", (1.0,))}
    assert set(full[change:]) == {("search", (2, 1.5, 1.0))}
    assert load_policy(run)[1]["step"] >= config.total_steps


def test_train_no_search_has_the_seed_of_another(config, monkeypatch):
    """Not even while no game has ended and the step stands still; nor do other runs."""
    decide(monkeypatch, "reject")
    seeds = []

    def teacher(evaluate, num_simulations, temperature, gumbel_scale, seed):
        def teach(games, rules):
            mask = observe_movers(games, rules)[1]
            value = np.zeros((len(games), 4), np.float32)
            value[:, : rules.num_players] = 1 / rules.num_players
            log_policy = np.where(mask, -np.log(mask.sum(1, keepdims=True)), -30)
            return Taught(log_policy, mask.argmax(1), value, mask.argmax(1))

        if num_simulations == 2:
            seeds.append(seed)
        return teach

    monkeypatch.setattr(expert_iteration, "search_teacher", teacher)
    for seed in (0, 1):
        config = replace(
            config, num_players=0, rollout_steps=2, total_steps=300, fast_simulations=3, seed=seed
        )
        expert_iteration.train(replace(config, run_name=f"seed-{seed}"))
    assert len(seeds) > 50 and len(set(seeds)) == len(seeds)


def test_games_of_another_step_or_number_of_players_are_dealt_from_other_seeds(config):
    deals = []
    for step, num_players in ((0, 2), (100, 2), (0, 3)):
        table = expert_iteration._Table(config, standard(num_players), step)
        assert sum(games._batch.num_games for games in table.games) == config.num_games
        deals += [int(seed) for games in table.games for seed in games._batch.games["seed"]]
    assert len(set(deals)) == 3 * config.num_games


def test_train_that_diverges_says_so_and_keeps_the_last_good_checkpoint(config, monkeypatch):
    decide(monkeypatch, "accept")
    run = stop_at_first_evaluation(config)
    before, _ = saved(run)
    step = learning.Learner.step

    def far_too_fast(learner, loss, batch, learning_rate):
        return step(learner, loss, batch, 1e38)

    monkeypatch.setattr(learning.Learner, "step", far_too_fast)
    with pytest.raises(DivergedError, match="the training diverged"):
        expert_iteration.train(config, resume=True)
    after, _ = saved(run)
    assert is_same(before, after)
