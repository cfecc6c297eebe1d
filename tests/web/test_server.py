"""The web table by its HTTP interface, on a real server on loopback."""

import asyncio
import importlib.util
import json
import random
import socket
import threading
import time

import numpy as np
import pytest

from splendor_env import Game
from splendor_env.core.cards import CARD_NAMES
from splendor_env.core.hidden import is_secret
from splendor_env.core.state import PRESETS, SplendorError
from splendor_env.record import read_records, redact, verify

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from splendor_env.web import replays, server, tables
from splendor_env.web.players import Agents
from tests.web import agents
from tests.web.client import SECRET, running


@pytest.fixture(scope="module")
def client():
    with running() as one:
        yield one


def prefer(moves, chooser):
    """A move of a game that ends soon and has many reserves in secret."""
    buys = [move for move in moves if move.startswith("buy")]
    blind = [move for move in moves if move.startswith("reserve deck")]
    return chooser.choice(buys or (blind if blind and chooser.random() < 0.5 else moves))


# Playing.


def test_setup_names_presets_agents_and_cards(client):
    setup = client.get("/api/setup")
    assert list(setup["presets"]) == list(PRESETS)
    assert {"random", "greedy", "builder", "racer", "mcts:sims=200"} <= set(setup["agents"])
    assert setup["cards"]["W00021"] == {
        "level": 1,
        "points": 0,
        "bonus": "W",
        "cost": {"R": 2, "K": 1},
    }
    if importlib.util.find_spec("onnxruntime") is not None:
        assert {"pretrained", "pretrained:ms=100"} <= set(setup["agents"])
    assert len(setup["cards"]) == 90 and len(setup["nobles"]) == 10


def test_new_table_tells_each_person_a_secret_of_their_own(client):
    _, secrets = client.open(None, "greedy", None)
    assert list(secrets) == [0, 2]
    assert secrets[0] != secrets[2]
    assert all(len(secret) == 22 for secret in secrets.values())


def test_first_view_shows_the_deal_and_the_moves_of_the_seat_to_move(client):
    path, secrets = client.open(None, None, seed=7, rules="rulebook_2014")
    view = client.get(path, secrets[0])
    game = Game("rulebook_2014", 2, seed=7)
    assert view["position"]["market"] == game.to_dict()["market"]
    assert view["legal_moves"] == game.legal_moves
    assert (view["viewer"], view["player"], view["phase"], view["round"]) == (0, 0, "play", 1)
    assert (view["preset"], view["rules"]) == ("rulebook_2014", game.rules._asdict())
    assert (view["deck_sizes"], view["token_limit"]) == ([36, 26, 16], 10)
    assert [seat["name"] for seat in view["seats"]] == ["person 0", "person 1"]
    assert view["history"] == [] and view["last_move"] is None
    assert client.get(path, secrets[1])["legal_moves"] == []
    assert client.get(path)["viewer"] is None


def test_target_points_can_be_changed(client):
    path, _ = client.open(None, None, target_points=5)
    assert client.get(path)["rules"]["target_points"] == 5


def test_missing_counts_what_a_card_still_costs_the_viewer(client):
    path, secrets = client.open(None, None, seed=7)
    view = client.get(path, secrets[0])
    card = view["position"]["market"]["1-1"]
    cost = client.get("/api/setup")["cards"][card]["cost"]
    assert view["missing"]["1-1"] == cost
    color = next(iter(cost))
    take = next(move for move in view["legal_moves"] if move.startswith("take") and color in move)
    client.post(f"{path}/moves", {"move": take, "version": 0}, secrets[0])
    missing = client.get(path, secrets[0])["missing"]["1-1"]
    assert missing.get(color, 0) == cost[color] - take.split().count(color)
    assert client.get(path)["missing"] == {}


def test_history_tells_what_left_the_table_and_what_came(client):
    path, secrets = client.open(None, None, seed=7)
    view = client.get(path, secrets[0])
    card = view["position"]["market"]["2-3"]
    view = client.post(f"{path}/moves", {"move": "reserve 2-3", "version": 0}, secrets[0])
    assert view["last_move"] == {
        "seat": 0,
        "round": 1,
        "move": "reserve 2-3",
        "card": card,
        "drawn": view["position"]["market"]["2-3"],
        "noble": None,
        "tokens": {"gold": 1},
    }
    client.post(f"{path}/moves", {"move": "reserve deck 1", "version": 1}, secrets[1])
    own, other, nobody = (client.get(path, secret) for secret in (secrets[1], secrets[0], None))
    reserved = own["position"]["seats"][1]["reserved"][0]["card"]
    assert own["last_move"]["drawn"] == reserved is not None
    assert other["last_move"]["drawn"] is None is nobody["last_move"]["drawn"]
    assert other["position"]["seats"][1]["reserved"] == [{"card": None, "blind": True, "level": 1}]


def test_game_against_greedy_is_played_to_its_end_and_recorded(tmp_path):
    file = tmp_path / "games.jsonl"
    with running(record=file) as client:
        path, secrets = client.open(None, "greedy")
        chooser = random.Random(1)
        view = client.finish(path, secrets[0], lambda moves: prefer(moves, chooser))
        assert view["end_reason"] == "target"
        assert view["winners"] and not view["thinking"] and view["legal_moves"] == []
        record = client.get(f"{path}/record")
    assert verify(record) == ()
    assert record["seats"] == ["person 0", "greedy"]
    assert record["result"]["points"] == view["points"]
    assert list(read_records(file)) == [record]


def test_agents_play_among_themselves_while_somebody_watches(client):
    path, secrets = client.open("greedy", "racer", "random")
    assert secrets == {}
    view = client.get(path)
    while not view["is_over"]:
        view = client.wait(path, view)
    assert [entry["seat"] for entry in view["history"][:3]] == [0, 1, 2]


def test_agents_wait_for_the_delay(client):
    path, _ = client.open("greedy", "greedy", delay_ms=10_000)
    time.sleep(0.3)
    view = client.get(path)
    assert view["thinking"] and view["version"] == 0


def test_poll_answers_when_the_table_changes(client):
    path, secrets = client.open(None, None)
    views = []
    poll = threading.Thread(target=lambda: views.append(client.get(f"{path}?since=0")))
    poll.start()
    time.sleep(0.3)
    assert views == []
    view = client.get(path, secrets[0])
    client.post(f"{path}/moves", {"move": view["legal_moves"][0], "version": 0}, secrets[0])
    poll.join(5)
    assert [view["version"] for view in views] == [1]
    assert client.get(f"{path}?since=0")["version"] == 1


def test_poll_answers_in_the_end_without_a_change(client, monkeypatch):
    monkeypatch.setattr(server, "_POLL_SECONDS", 0.2)
    path, _ = client.open(None, None)
    start = time.perf_counter()
    assert client.get(f"{path}?since=0")["version"] == 0
    assert time.perf_counter() - start >= 0.2


def test_poll_ends_when_its_client_has_gone(client, monkeypatch):
    begun, ended = threading.Event(), threading.Event()
    wait = tables.Table.wait

    async def watched(*arguments):
        begun.set()
        try:
            await wait(*arguments)
        except asyncio.CancelledError:
            ended.set()
            raise

    monkeypatch.setattr(tables.Table, "wait", watched)
    path, _ = client.open(None, None)
    with socket.create_connection(("127.0.0.1", client.port)) as connection:
        connection.sendall(f"GET {path}?since=0 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert begun.wait(5)
    assert ended.wait(5)


def test_person_hands_the_seat_to_an_agent_and_takes_it_back(client):
    path, secrets = client.open(None, None)
    view = client.post(f"{path}/seats/0", {"kind": "agent", "agent": "greedy"}, secrets[0])
    assert view["seats"][0] == {"kind": "agent", "agent": "greedy", "name": "person 0"}
    assert view["legal_moves"] == []
    while view["player"] == 0:
        view = client.wait(path, view, secrets[0])
    view = client.post(f"{path}/seats/0", {"kind": "person"}, secrets[0])
    assert view["seats"][0] == {"kind": "person", "name": "person 0", "away": False}
    move = client.get(path, secrets[1])["legal_moves"][0]
    body = {"move": move, "version": view["version"]}
    assert client.post(f"{path}/moves", body, secrets[1])["player"] == 0
    time.sleep(0.2)
    assert client.get(path, secrets[0])["legal_moves"] != []


def test_thought_of_an_agent_does_not_count_after_its_seat_was_taken_back(client):
    path, secrets = client.open(None, None, delay_ms=300)
    client.post(f"{path}/seats/0", {"kind": "agent", "agent": "greedy"}, secrets[0])
    view = client.post(f"{path}/seats/0", {"kind": "person"}, secrets[0])
    time.sleep(0.6)
    assert client.get(path)["version"] == view["version"] and view["history"] == []


def test_thought_that_counts_no_more_holds_up_nobody():
    spec = "tests.web.agents:slow"
    with running(more_agents=[spec]) as client:
        path, secrets = client.open(None, None)
        client.post(f"{path}/seats/0", {"kind": "agent", "agent": spec}, secrets[0])
        time.sleep(0.1)
        start = time.perf_counter()
        view = client.post(f"{path}/seats/0", {"kind": "agent", "agent": "greedy"}, secrets[0])
        while view["player"] == 0:
            view = client.wait(path, view)
        assert time.perf_counter() - start < 0.7
        record = client.get(f"{path}/record", secrets[0])
    assert record["seats"] == ["greedy", "person 1"]


def test_thought_that_was_stopped_leaves_the_next_one_alone():
    async def hand_over_twice():
        open_tables = tables.Tables(Agents(), lambda record: None)
        seats = [tables.Seat(name="a"), tables.Seat(name="b")]
        table = open_tables.open(Game(seed=1), "standard", seats, delay=10.0)
        for agent in ("greedy", "racer"):
            table.hand_over(0, 0, agent)
            playing = table._playing
            await asyncio.sleep(0.05)
        assert table._playing is playing is not None
        open_tables.close()

    asyncio.run(hand_over_twice())


def test_person_resigns_and_the_others_have_won(tmp_path):
    file = tmp_path / "games.jsonl"
    with running(record=file) as client:
        path, secrets = client.open(None, None, "greedy", seed=7)
        client.post(f"{path}/resign", {}, status=403)
        client.post(f"{path}/resign", {}, secrets[1], status=403)
        client.post(f"{path}/moves", {"move": "take W U G", "version": 0}, secrets[0])
        view = client.post(f"{path}/resign", {}, secrets[1])
        ending = {"is_over": True, "end_reason": "forfeit", "forfeited_by": 1, "winners": [0, 2]}
        assert ending.items() <= view.items()
        assert (view["version"], view["legal_moves"], view["thinking"]) == (2, [], False)
        client.post(f"{path}/resign", {}, secrets[1], status=409)
        client.post(f"{path}/moves", {"move": "pass", "version": 2}, secrets[1], status=409)
        record = client.get(f"{path}/record")
        assert list(read_records(file)) == [record]
        forfeit = {"seat": 1, "reason": "failed", "detail": "abandoned by a person"}
        assert record["result"]["forfeit"] == forfeit

        about = client.post("/api/replays", record, status=201)
        replay = f"/api/replays/{about['replay']}"
        assert ending.items() <= client.get(f"{replay}/1?viewer=0").items()
        assert client.get(f"{replay}/0")["forfeited_by"] is None
        client.post(f"{replay}/1/analysis", {"agent": "greedy"}, status=409)
    shares = replays.StoredReplay(record).known_shares(np.full((2, 3), 1 / 3))
    assert shares == [[1 / 3] * 3, [0.5, 0.0, 0.5]]


def test_record_names_all_who_have_played_a_seat():
    failing = "tests.web.agents:failing"
    with running(more_agents=[failing]) as client:
        path, secrets = client.open(None, failing, target_points=1)
        view = client.get(path, secrets[0])
        client.post(f"{path}/moves", {"move": view["legal_moves"][0], "version": 0}, secrets[0])
        client.post(f"{path}/seats/0", {"kind": "agent", "agent": "racer"}, secrets[0])
        view = client.get(path)
        while not view["is_over"]:
            view = client.wait(path, view)
        record = client.get(f"{path}/record")
    assert record["seats"] == ["person 0, then racer", f"{failing}, then greedy"]


def test_game_that_is_over_stays_as_it_was(client):
    path, secrets = client.open(None, "greedy", target_points=1)
    view = client.finish(path, secrets[0])
    record = client.get(f"{path}/record")
    client.post(f"{path}/seats/0", {"kind": "agent", "agent": "racer"}, secrets[0], status=409)
    assert client.get(path, secrets[0]) == view
    assert client.get(f"{path}/record") == record


def test_agents_are_told_of_the_end():
    spec = "tests.web.agents:telling"
    agents.ended.clear()
    with running(more_agents=[spec]) as client:
        path, secrets = client.open(None, spec, target_points=1)
        over = client.finish(path, secrets[0])
        path, secrets = client.open(None, spec)
        view = client.get(path, secrets[0])
        client.post(f"{path}/moves", {"move": "take W U G", "version": 0}, secrets[0])
        while view["player"] == 1 or view["version"] < 2:
            view = client.wait(path, view)
        client.post(f"{path}/resign", {}, secrets[0])
        deadline = time.monotonic() + 5
        while len(agents.ended) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert [game_id for game_id, _ in agents.ended] == [1, 5]
    assert [result["end_reason"] for _, result in agents.ended] == [
        over["end_reason"],
        "forfeit",
    ]
    assert agents.ended[1][1]["winners"] == [1]


def test_only_one_who_is_away_is_replaced_by_others(client, monkeypatch):
    path, secrets = client.open(None, None)
    body = {"kind": "agent", "agent": "greedy"}
    client.post(f"{path}/seats/0", body, secrets[1], status=403)
    monkeypatch.setattr("splendor_env.web.tables._AWAY_SECONDS", 0.0)
    assert client.get(path, secrets[1])["seats"][0]["away"]
    client.post(f"{path}/seats/0", body, status=403)
    client.post(f"{path}/seats/7", body, secrets[1], status=403)
    racer = {"kind": "agent", "agent": "racer"}
    client.post(f"{path}/seats/0", racer, secrets[1], status=403)
    client.post(f"{path}/seats/0", body, secrets[1])
    client.post(f"{path}/seats/0", {"kind": "person"}, secrets[1], status=403)
    client.post(f"{path}/seats/0", {"kind": "person"}, secrets[0])


@pytest.mark.parametrize("kind", ["failing", "illegal"])
def test_greedy_plays_on_for_an_agent_that_fails(kind):
    spec = f"tests.web.agents:{kind}"
    with running(more_agents=[spec]) as client:
        assert spec in client.get("/api/setup")["agents"]
        path, secrets = client.open(None, spec)
        view = client.get(path, secrets[0])
        body = {"move": view["legal_moves"][0], "version": 0}
        view = client.post(f"{path}/moves", body, secrets[0])
        while view["player"] == 1:
            view = client.wait(path, view, secrets[0])
    assert view["notice"] == f"{spec} has failed in seat 1; greedy plays on"
    assert view["seats"][1]["agent"] == "greedy"
    assert [entry["seat"] for entry in view["history"]] == [0, 1]


def test_slow_agent_holds_up_only_those_who_asked_it(monkeypatch):
    spec = "tests.web.agents:slow"
    with running(more_agents=[spec]) as client:
        slow, _ = client.open(spec, None)
        start = time.perf_counter()
        path, secrets = client.open(None, "greedy")
        view = client.post(f"{path}/moves", {"move": "take W U G", "version": 0}, secrets[0])
        assert client.wait(path, view)["player"] == 0
        assert time.perf_counter() - start < 0.9
        assert client.get(slow)["thinking"]


def test_analyses_wait_for_each_other_and_hold_up_no_move(monkeypatch):
    spec = "tests.web.agents:slow"
    monkeypatch.setattr(server, "_MOST_WAITING", 2)
    with running(more_agents=[spec]) as client:
        path, secrets = client.open(None, None)
        question = (f"{path}/analysis", {"agent": spec}, secrets[0])
        asked = [threading.Thread(target=client.post, args=question) for _ in range(2)]
        for thread in asked:
            thread.start()
        time.sleep(0.2)
        assert "too busy" in client.post(*question, status=429)["error"]
        slow, _ = client.open(spec, None)
        client.wait(slow, client.get(slow))
        assert asked[0].is_alive() or asked[1].is_alive()  # two seconds together
        for thread in asked:
            thread.join()


@pytest.mark.parametrize("kind", ["private", "failing", "illegal", "nan"])
def test_words_of_an_agent_that_fails_are_for_the_log(kind, caplog):
    spec = f"tests.web.agents:{kind}"
    with running(more_agents=[f"mine={spec}"]) as client:
        path, secrets = client.open(None, None)
        answer = client.post(f"{path}/analysis", {"agent": "mine"}, secrets[0], status=500)
        assert answer == {"error": "agent 'mine' has failed; the log says more"}
    assert (agents.PRIVATE in caplog.text) == (kind == "private")


def test_spec_of_an_agent_with_a_name_stays_with_the_operator(client):
    spec = "tests.web.agents:slow"
    with running(more_agents=[f"my bot={spec}", "mcts:sims=8", "greedy"]) as client:
        setup = client.get("/api/setup")
        assert {"my bot", "mcts:sims=8", "greedy"} <= set(setup["agents"])
        assert spec not in json.dumps(setup)
        path, _ = client.open("my bot", None)
        assert client.get(path)["seats"][0]["agent"] == "my bot"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["external:./engine"], "needs a name"),
        (["mcts:eval=external:./engine"], "needs a name"),
        (["=greedy"], "printable"),
        (["a\nb=greedy"], "printable"),
        (["greedy=racer"], "there are two agents 'greedy'"),
        (["mine=racer", "mine=greedy"], "there are two agents 'mine'"),
        (["mine=nobody"], "unknown agent 'nobody'"),
    ],
)
def test_agent_without_a_proper_name_is_refused(more, words):
    with pytest.raises(SplendorError, match=words):
        server.create_app(more)


# Secrets.


def hidden_names(game, viewer):
    """The cards that a viewer has never seen: in decks, and drawn from them by others."""
    record = game.games[0]
    names = {CARD_NAMES[card] for card in record.deck.ravel() if card >= 0}
    for seat in range(game.rules.num_players):
        for slot in range(3):
            blind = record.reserved_blind[seat, slot] == 1
            if blind and is_secret(record, game.rules, seat, slot, viewer):
                names.add(CARD_NAMES[record.reserved[seat, slot]])
    return names


@pytest.mark.parametrize(
    ("preset", "players"), [("standard", 2), ("rulebook_2014", 4), ("from_four_left", 3)]
)
def test_no_answer_of_a_whole_game_holds_what_its_viewer_has_not_seen(client, preset, players):
    """Every byte that is sent to every seat and to a spectator, at every decision."""
    seed = 2**63 + 12345
    chooser = random.Random(3)
    path, secrets = client.open(*[None] * players, rules=preset, seed=seed)
    game = Game(preset, players, seed=seed)
    num_blind = 0
    while not game.is_over:
        for viewer, secret in (*secrets.items(), (-1, None)):
            headers = {} if secret is None else {SECRET: secret}
            answers = [client.raw("GET", path, headers=headers)[1]]
            if secret is not None and len(game.history) % 10 == 0:
                answers.append(client.raw("GET", f"{path}/record", headers=headers)[1])
            hidden = hidden_names(game, viewer)
            for answer in answers:
                text = answer.decode()
                assert not [name for name in hidden if name in text]
                assert str(seed) not in text and "unseen" not in text and "decks" not in text
            entries = json.loads(answers[0])["position"]["seats"]
            for seat, described in enumerate(entries):
                for slot, entry in enumerate(described["reserved"]):
                    secret_card = is_secret(game.games[0], game.rules, seat, slot, viewer)
                    assert (entry["card"] is None) == secret_card
                    num_blind += bool(secret_card)
        move = prefer(game.legal_moves, chooser)
        body = {"move": move, "version": len(game.history)}
        status, answer, _ = client.raw(
            "POST",
            f"{path}/moves",
            json.dumps(body).encode(),
            {SECRET: secrets[game.player], "Content-Type": "application/json"},
        )
        mover = game.player
        game.push(move)
        assert status == 200
        assert not [name for name in hidden_names(game, mover) if name in answer.decode()]
    assert num_blind > 20
    assert client.get(path)["points"] == game.points
    record = client.get(f"{path}/record?viewer=1")
    assert record["viewer"] == 1
    assert verify(client.get(f"{path}/record")) == ()


def test_record_of_a_game_under_way_is_what_the_seat_knows(client):
    path, secrets = client.open(None, None, seed=5)
    client.post(f"{path}/moves", {"move": "reserve deck 3", "version": 0}, secrets[0])
    record = client.get(f"{path}/record", secrets[1])
    assert (record["viewer"], record["result"]) == (1, None)
    assert record["turns"][0][1] == "reserve deck 3 draws ?"
    client.get(f"{path}/record", status=403)
    client.get(f"{path}/record?viewer=0", secrets[1], status=403)


# Analysis.


def test_analysis_by_a_network_gives_probabilities_and_win_shares(client):
    pytest.importorskip("onnxruntime")
    path, secrets = client.open(None, None, None, seed=7)
    answer = client.post(f"{path}/analysis", {"agent": "pretrained"}, secrets[0])
    probability = [move["probability"] for move in answer["moves"]]
    assert sum(probability) == pytest.approx(1)
    assert probability == sorted(probability, reverse=True)
    assert {move["move"] for move in answer["moves"]} == set(
        Game(num_players=3, seed=7).legal_moves
    )
    assert sum(answer["win_shares"]) == pytest.approx(1) and len(answer["win_shares"]) == 3
    assert answer["choice"] == answer["moves"][0]["move"]


def test_analysis_by_search_gives_lines_that_can_be_played(client):
    path, secrets = client.open(None, None, seed=7)
    answer = client.post(f"{path}/analysis", {"agent": "mcts:sims=200"}, secrets[0])
    assert sum(answer["win_shares"]) == pytest.approx(1)
    assert all(0 <= move["win_share"] <= 1 for move in answer["moves"] if move["win_share"])
    assert [line[0] for line in answer["lines"]] == [m["move"] for m in answer["moves"][:3]]
    game = Game(seed=7)
    game.push(answer["lines"][0][0])
    assert answer["lines"][0][1] in game.legal_moves


def test_analysis_by_a_heuristic_gives_its_move(client):
    path, secrets = client.open(None, None, seed=7)
    answer = client.post(f"{path}/analysis", {"agent": "greedy"}, secrets[0])
    assert answer["moves"] == [{"move": answer["choice"], "probability": 1.0, "win_share": None}]
    assert answer["win_shares"] is None and answer["lines"] == []


def test_analysis_is_for_the_seat_to_move(client):
    path, secrets = client.open(None, None, seed=7)
    for secret in (secrets[1], None):
        client.post(f"{path}/analysis", {"agent": "greedy"}, secret, status=403)


def test_agent_that_fails_in_an_analysis_is_named():
    spec = "tests.web.agents:failing"
    with running(more_agents=[spec]) as client:
        path, secrets = client.open(None, None)
        answer = client.post(f"{path}/analysis", {"agent": spec}, secrets[0], status=500)
    assert answer["error"] == f"agent '{spec}' has failed; the log says more"


# Replays.


@pytest.fixture(scope="module")
def record(client):
    chooser = random.Random(5)
    path, secrets = client.open(None, "greedy", seed=11)
    client.finish(path, secrets[0], lambda moves: prefer(moves, chooser))
    return client.get(f"{path}/record")


def test_replay_shows_every_position_of_a_record(client, record):
    about = client.post("/api/replays", record, status=201)
    path = f"/api/replays/{about['replay']}"
    assert about["seats"] == ["person 0", "greedy"] and about["result"] == record["result"]
    game = Game(seed=11)
    for decision in range(about["decisions"]):
        view = client.get(f"{path}/{decision}?viewer=1")
        assert view["position"]["bank"] == game.to_dict()["bank"]
        assert (view["version"], view["decisions"]) == (decision, about["decisions"])
        assert view["legal_moves"] == (game.legal_moves if game.player == 1 else [])
        after = client.get(f"{path}/{decision + 1}?viewer=all")
        game.push(after["last_move"]["move"])
        assert after["position"]["seats"] == [
            {**seat, "reserved": game.seen_by(number)["seats"][number]["reserved"]}
            for number, seat in enumerate(game.to_dict()["seats"])
        ]
    assert client.get(f"{path}/{about['decisions']}")["is_over"]
    client.get(f"{path}/{about['decisions'] + 1}", status=404)
    client.get(f"{path}/-1", status=404)
    client.get(f"{path}/0?viewer=2", status=422)


def test_replay_of_a_redacted_record_shows_what_its_seat_saw_only(client, record):
    from splendor_env.record import redact

    about = client.post("/api/replays", redact(record, 1), status=201)
    path = f"/api/replays/{about['replay']}"
    assert about["viewer"] == 1
    assert client.get(f"{path}/9?viewer=1")["viewer"] == 1
    for viewer in ("0", "all"):
        client.get(f"{path}/9?viewer={viewer}", status=403)
    question = {"agent": "greedy"}
    client.post(f"{path}/0/analysis", question, status=403)
    client.post(f"{path}/1/analysis", question)


def test_replay_gives_the_chances_over_the_game(client, record):
    pytest.importorskip("onnxruntime")
    about = client.post("/api/replays", record, status=201)
    path = f"/api/replays/{about['replay']}"
    shares = client.get(f"{path}/win_shares?agent=pretrained")["win_shares"]
    assert len(shares) == about["decisions"] + 1
    assert all(sum(share) == pytest.approx(1) for share in shares)
    assert shares[-1] == record["result"]["share"]
    answer = client.get(f"{path}/win_shares?agent=greedy", status=422)
    assert answer["error"] == "agent 'greedy': it does not say how likely the seats are to win"


def test_chances_that_a_redacted_record_does_not_know_are_left_out(record):
    stored = replays.StoredReplay(redact(record, 1))
    shares = np.full((len(stored.positions), 2), 0.5)
    known = stored.known_shares(shares)
    assert known[0] is None and known[-1] == [0.5, 0.5]
    movers = stored.positions["player"].tolist()
    assert [row is None for row in known[:-1]] == [mover != 1 for mover in movers[:-1]]


def test_oldest_replays_give_way(client, record, monkeypatch):
    paths = []
    size = replays.StoredReplay(record).size
    assert size > 1.2 * replays.StoredReplay(record).positions.nbytes
    monkeypatch.setattr(replays, "_MOST_BYTES", 2.5 * size)
    for _ in range(3):
        about = client.post("/api/replays", record, status=201)
        paths.append(f"/api/replays/{about['replay']}/0")
    client.get(paths[0], status=404)
    client.get(paths[1])
    client.get(paths[2])


def test_position_of_a_replay_is_analysed(client, record):
    pytest.importorskip("onnxruntime")
    about = client.post("/api/replays", record, status=201)
    path = f"/api/replays/{about['replay']}"
    for agent in ("mcts:sims=200", "pretrained:sims=100", "pretrained:ms=100"):
        answer = client.post(f"{path}/3/analysis", {"agent": agent})
        assert answer["choice"] == answer["moves"][0]["move"] == answer["lines"][0][0]
    client.post(f"{path}/{about['decisions']}/analysis", {"agent": "greedy"}, status=409)


def test_record_that_does_not_verify_is_refused_with_the_reason(client, record):
    broken = json.loads(json.dumps(record))
    broken["turns"][3][-1] = "0" * 16
    assert "turn 4, seat 1: hash" in client.post("/api/replays", broken, status=422)["error"]
    assert "record: version" in client.post("/api/replays", {}, status=422)["error"]


def test_names_in_a_record_that_utf_8_cannot_hold_do_no_harm(client, record):
    odd = {**record, "seats": ["\ud800", "b"]}
    about = client.post("/api/replays", odd, status=201)
    assert client.get(f"/api/replays/{about['replay']}/0")["seats"][0]["name"] == "\ud800"


# Bad requests.


@pytest.fixture
def table(client):
    """A table, after which the game must be as it was."""
    path, secrets = client.open(None, None, seed=7)
    before = client.get(path, secrets[0])
    yield path, secrets
    assert client.get(path, secrets[0]) == before


def move_request(client, path, secret, body):
    status, answer = client.call("POST", f"{path}/moves", body, secret)
    assert isinstance(answer["error"], str) and answer["error"]
    return status, answer


def test_unknown_game_is_404(client):
    status, answer = move_request(client, "/api/tables/nothing", None, {"move": "a", "version": 0})
    assert (status, answer["error"]) == (404, "there is no such table, or it was closed")
    assert "error" in client.get("/api/tables/nothing", status=404)
    assert "error" in client.get("/api/replays/nothing/0", status=404)
    assert "error" in client.get("/nothing", status=404)
    assert "error" in client.get("/static/../server.py", status=404)


@pytest.mark.parametrize("secret", [None, "", "wrong", "\u00e9" * 40, 1])
def test_wrong_secret_is_403(client, table, secret):
    path, secrets = table
    secret = secrets[secret] if secret == 1 else secret  # the one of the seat not to move
    body = {"move": "take W U G", "version": 0}
    assert move_request(client, path, secret, body)[0] == 403


@pytest.mark.parametrize("move", ["buy 3-1", "return W", "pass", "", "nonsense", "x" * 99])
def test_illegal_move_is_422_and_tells_the_legal_ones(client, table, move):
    path, secrets = table
    status, answer = move_request(client, path, secrets[0], {"move": move, "version": 0})
    assert status == 422
    assert answer["legal"] == Game(seed=7).legal_moves


def test_stale_version_is_409(client, table):
    path, secrets = table
    status, answer = move_request(client, path, secrets[0], {"move": "take W U G", "version": 5})
    assert (status, answer["error"]) == (409, "the table is at version 0, the move was for 5")


def test_move_after_the_end_is_409(client):
    path, secrets = client.open(None, "greedy", target_points=1)
    view = client.finish(path, secrets[0])
    body = {"move": "take W U G", "version": view["version"]}
    assert move_request(client, path, secrets[0], body)[0] == 409


@pytest.mark.parametrize(
    "body",
    [
        {"move": 3, "version": 0},
        {"move": None, "version": 0},
        {"move": "take W U G", "version": "0"},
        {"move": "take W U G", "version": 0.5},
        {"move": "take W U G"},
        {"move": "take W U G", "version": 0, "seat": 1},
        {"move": "\ud800", "version": 0},
        {"move": "x" * 101, "version": 0},
        [],
        "text",
        None,
    ],
)
def test_wrong_types_are_422(client, table, body):
    path, secrets = table
    headers = {SECRET: secrets[0], "Content-Type": "application/json"}
    content = json.dumps(body).encode()
    status, answer, _ = client.raw("POST", f"{path}/moves", content, headers)
    assert status == 422 and json.loads(answer)["error"]


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[" * 50_000, b"{'move': 1}"])
def test_broken_json_is_4xx(client, table, body):
    path, secrets = table
    headers = {SECRET: secrets[0], "Content-Type": "application/json"}
    status, answer, _ = client.raw("POST", f"{path}/moves", body, headers)
    assert status == (422 if body == b"" else 400) and json.loads(answer)["error"]


def test_huge_body_is_413(client, table):
    path, secrets = table
    headers = {SECRET: secrets[0], "Content-Type": "application/json"}
    body = b'{"move": "' + b"x" * 70_000 + b'", "version": 0}'
    status, answer, _ = client.raw("POST", f"{path}/moves", body, headers)
    assert (status, json.loads(answer)["error"]) == (413, "the body has more than 65536 bytes")
    chunked = client.raw("POST", f"{path}/moves", iter([body[:40_000], body[40_000:]]), headers)
    assert chunked[0] == 413


def test_body_that_does_not_come_is_408(client, monkeypatch):
    monkeypatch.setattr(server, "_BODY_SECONDS", 0.1)
    request = "POST /api/replays HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n"
    request += "Content-Type: application/json\r\n\r\n"
    with socket.create_connection(("127.0.0.1", client.port), timeout=5) as connection:
        connection.sendall(request.encode())
        assert connection.recv(1000).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("since", ["x", "1.5", "9" * 5000])
def test_odd_version_in_the_address_is_422(client, table, since):
    assert client.get(f"{table[0]}?since={since}", status=422)["error"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"players": 5}, "players: "),
        ({"players": "2"}, "players: "),
        ({"players": 3}, "2 seats for 3 players"),
        ({"seats": [{"kind": "person"}]}, "1 seats for 2 players"),
        ({"seats": [{"kind": "ghost"}, {"kind": "person"}]}, "seats.0: "),
        ({"rules": "chess"}, "unknown rules 'chess'; presets are standard"),
        ({"seed": -1}, "seed must be an integer 0 to 2**64 - 1"),
        ({"seed": 1.5}, "seed: "),
        ({"target_points": 99}, "target_points must be an integer 1 to 40"),
        ({"delay_ms": 60_000}, "delay_ms: "),
        ({"more": 1}, "more: "),
        ({"seats": [{"kind": "person", "name": "a\nb"}, {"kind": "person"}]}, "printable"),
    ],
)
def test_table_that_cannot_be_is_422(client, change, words):
    body = {"players": 2, "seats": [{"kind": "person"}, {"kind": "person"}]} | change
    assert words in client.post("/api/tables", body, status=422)["error"]


@pytest.mark.parametrize(
    "spec", ["external:touch /tmp/x", "ppo:..", "onnx:/etc/passwd", "os.path:x", "mcts:sims=1", ""]
)
def test_agents_are_of_the_list_only(client, table, spec):
    seats = [{"kind": "person"}, {"kind": "agent", "agent": spec}]
    answer = client.post("/api/tables", {"players": 2, "seats": seats}, status=422)
    assert answer["error"].startswith(f"no agent {spec!r} here; agents are random, greedy")
    path, secrets = table
    client.post(f"{path}/seats/0", {"kind": "agent", "agent": spec}, secrets[0], status=422)
    client.post(f"{path}/analysis", {"agent": spec}, secrets[0], status=422)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example:80"}, 403),
        ({"Host": "["}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_requests_that_other_sites_can_cause_are_refused(client, table, headers, status):
    path, secrets = table
    body = json.dumps({"move": "take W U G", "version": 0}).encode()
    usual = {SECRET: secrets[0], "Content-Type": "application/json"}
    found, answer, _ = client.raw("POST", f"{path}/moves", body, usual | headers)
    assert found == status and json.loads(answer)["error"]


def test_own_page_may_call(client):
    for host in (f"127.0.0.1:{client.port}", f"localhost:{client.port}", "[::1]:1", "192.168.0.9"):
        headers = {"Host": host, "Origin": f"http://{host}"}
        assert client.raw("GET", "/api/setup", headers=headers)[0] == 200


def test_name_is_answered_only_if_the_operator_allows_it():
    with running(hosts=["Table.example"]) as client:
        for name, status in (("table.Example", 200), ("other.example", 403)):
            headers = {"Host": name, "Origin": f"https://{name.lower()}"}
            assert client.raw("GET", "/api/setup", headers=headers)[0] == status


def test_answers_forbid_foreign_scripts_and_caches(client):
    _, _, headers = client.raw("GET", "/api/setup")
    assert "script-src 'self'" in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"


def test_finished_and_idle_tables_give_way_to_new_ones(monkeypatch):
    with running(max_tables=2) as client:
        over, secrets = client.open(None, "greedy", target_points=1)
        client.finish(over, secrets[0])
        idle, _ = client.open(None, None)
        third, _ = client.open(None, None)
        client.get(over, status=404)
        body = {"players": 2, "seats": [{"kind": "person"}] * 2}
        assert "in use" in client.post("/api/tables", body, status=429)["error"]
        client.get(third)
        monkeypatch.setattr("splendor_env.web.tables._IDLE_SECONDS", 0.0)
        client.open(None, None)
        client.get(idle, status=404)
        client.get(third)
