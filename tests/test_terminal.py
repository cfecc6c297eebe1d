"""The text table, driven by typed lines; and the stepping through records."""

import io
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from splendor_env import Game, SplendorError, terminal
from splendor_env.agents import make_agent
from splendor_env.agents.analysis import analyse, shown_to_mover
from splendor_env.cli import main
from splendor_env.core.state import Phase, rulebook_2014, standard
from splendor_env.record import (
    RecordError,
    append_records,
    read_records,
    record_game,
    redact,
    verify,
    write_records,
)
from splendor_env.terminal import coloured, load_game, runs_code

CHECKOUT = Path(__file__).parents[1]


def run(*arguments):
    return main([str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Where games are kept."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path / "state" / "splendor_env" / "games"


@pytest.fixture
def play(monkeypatch, capsys):
    """Plays with lines typed, after which the input ends; returns what is printed."""

    def play_(lines, *arguments):
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        assert run("play", *arguments) == 0
        return capsys.readouterr().out

    return play_


def moves_until(game, is_reached, agent="racer"):
    """The moves of an agent in all seats until a position is reached, in which `game` is left."""
    agent = make_agent(agent)
    while not is_reached(game):
        game.push(int(agent.act(game.games, game.rules, np.array([0]))[0]))
    return list(game.history)


def with_ten_tokens():
    """A game in which all tokens but gold are taken and seat 0 is to move; and the moves so far."""
    game = Game(seed=3)
    lines = ["take W U G"] * 4 + ["take R K"] * 4
    for line in lines:
        game.push(line)
    return game, lines


PEOPLE = ("--against", "person", "--no-confirm")


# What is asked, and how it is answered.


def test_board_says_what_each_card_and_noble_still_costs(play):
    out = play(["reserve 2-1", ""], "--seed", 3, "--against", "random")
    first, second = out.split("Round ")[1:]
    lines = first.splitlines()
    assert [line.split("  ")[0] for line in lines].count("you lack") == 3
    assert [line for line in lines if line.startswith("cards to go")]
    cost = next(line for line in lines if "in deck" in line).partition("deck")[2]
    assert next(line for line in lines if "you lack" in line)[12:] == cost.strip()
    # With one gold in hand one token less is lacking than the card asks for in all.
    costs = [
        int(n)
        for n in re.findall(
            r"[WUGRK](\d)",
            next(line for line in second.splitlines() if "reserved 1:" in line).partition("cost")[
                2
            ],
        )
    ]
    lacks = next(line for line in second.splitlines() if line.startswith("      you lack: "))
    assert lacks.startswith(f"      you lack: {sum(costs) - 1}: ")
    typed_after = re.compile(r"^(tokens \d+/10|Enter to confirm, undo to take back) > ")
    assert max(len(typed_after.sub("", line)) for line in out.splitlines()[1:-1]) <= 80


def test_return_is_asked_for_until_the_limit_is_kept(play, folder):
    _, lines = with_ten_tokens()
    out = play([*lines, "reserve 2-1", "take W U G", "return R"], "--seed", 3, *PEOPLE)
    assert "Return 1 of your 11 tokens, one at a time; the limit is 10:" in out
    assert "  1 return W " in out and "tokens 11/10 > " in out
    assert "Not possible now: take W U G" in out
    reserved = r"Seat 0 reserves 2-1 \(level 2, W 2 points, cost R5\), takes gold; 2-1 is now R 2"
    assert re.search(reserved, out)
    assert "Seat 0 returns R." in out
    [record] = read_records(next(folder.iterdir()), allow_unfinished=True)
    assert record["turns"][-1][-2] == "return R"


def test_noble_is_chosen_by_hand(play):
    game = Game(seed=89)
    lines = moves_until(game, lambda game: game.phase == Phase.NOBLE)
    seat, choice = game.player, game.legal_moves[1]
    out = play([*lines, choice], "--seed", 89, *PEOPLE)
    assert "Several nobles would visit you, each worth 3 points. Choose one: noble 2 (" in out
    assert re.search(rf"Seat {seat} noble {choice[-1]} \([^)]*\) visits\.", out)
    assert f"with seat {seat}" in out.split("Round ")[-1]


def test_payment_by_choice_is_asked_for(play):
    game = Game("rulebook_2014", seed=0)
    lines = moves_until(game, lambda game: game.phase == Phase.PAY)
    swap = game.legal_moves[0]
    assert swap == "pay gold for W"
    out = play([*lines, swap], "--seed", 0, "--rules", "rulebook_2014", *PEOPLE)
    assert "You pay with W2. Put gold in place of a colour, or type done:" in out
    out = " ".join(out.split())
    assert "Seat 1 wants 1-1 (level 1, K, cost W2 G2)." in out
    assert "Seat 1 pays gold for W, buys 1-1 (level 1, K, cost W2 G2) for W1 gold 1; 1-1 is" in out


def test_turn_is_final_only_once_it_is_confirmed(play):
    lines = ["take W U G", "what", "undo", "undo", "reserve 2-1", "", "undo"]
    out = play(lines, "--seed", 3, "--against", "greedy")
    assert out.count("Enter to confirm, undo to take back > ") == 3
    assert "Press Enter, or type undo or quit." in out
    assert out.count("There is nothing to undo: what has been confirmed is final.") == 2
    assert out.count("Round 1: seat 0 plays.") == 2
    # What comes to the free place is told after the confirmation alone, as is the agent's move.
    reserve, confirmed = out.index("reserves 2-1"), out.rindex("Enter to confirm")
    assert reserve < confirmed < out.index("2-1 is now ") < out.index("Seat 1 (greedy) ")


@pytest.mark.parametrize("move", ["reserve 2-1", "reserve deck 2"])
def test_open_turn_does_not_show_what_it_has_turned_up(move, play):
    """Else one could look, undo, and do something else."""
    game, lines = with_ten_tokens()
    out = play([*lines, move, "undo"], "--seed", 3, *PEOPLE)
    open_board, undone = out.split("Round ")[-2:]
    game.push(move)
    assert f"seat {game.player} returns 1 token" in open_board
    assert ("2-1 empty" in open_board) == (move == "reserve 2-1")
    assert "2-1 empty" not in undone
    assert "face down" not in open_board and "the card: " not in open_board


def test_undo_takes_back_one_decision_of_a_turn(play):
    _, lines = with_ten_tokens()
    confirmed = [line for move in lines for line in (move, "")]
    turn = ["reserve 2-1", "return R", "undo", "return K", "undo", "undo", "undo"]
    out = play([*confirmed, *turn], "--seed", 3, "--against", "person")
    assert "takes gold, then returns R.\n" in out and "takes gold, then returns K.\n" in out
    assert out.count("Return 1 of your 11 tokens") == 3
    assert out.count("There is nothing to undo") == 1
    assert out.split("Round ")[-1].startswith("5: seat 0 plays.")


def test_hint_gives_probabilities_or_a_choice(play):
    pytest.importorskip("onnxruntime")
    out = play(["hint racer", "hint", "hint mcts:sims=8", "hint nobody"], "--seed", 3)
    assert re.search(r"racer: take R R\n", out)
    assert re.search(r"pretrained: \w[^%]* \d+%, ", out)
    assert re.search(r"mcts:sims=8: \w[^%]* \d+%, ", out)
    shares = re.search(r"win shares: seat 0 (\d+)%, seat 1 (\d+)%", out)
    assert 98 <= int(shares[1]) + int(shares[2]) <= 102
    assert "unknown agent 'nobody'" in out
    assert "Seat 1" not in out.split("win shares")[-1]


def test_hint_without_onnxruntime_asks_a_heuristic(play, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert "racer: " in play(["hint"], "--seed", 3)


def test_hint_knows_no_more_than_its_seat():
    game = Game(num_players=2, seed=5)
    game.push("reserve deck 2")
    for spec in "pretrained", "mcts:sims=8":
        if spec == "pretrained":
            pytest.importorskip("onnxruntime")
        hints = [
            analyse(make_agent(spec), shown_to_mover(other))
            for other in (game, game.determinize(1, 7), game.determinize(1, 8))
        ]
        first = {one["move"]: one["probability"] for one in hints[0]["moves"]}
        for hint in hints[1:]:
            likely = {one["move"]: one["probability"] for one in hint["moves"]}
            assert likely == pytest.approx(first)
            assert hint["win_shares"] == pytest.approx(hints[0]["win_shares"])


def test_hint_in_an_open_turn_is_not_a_way_to_see_the_card_that_came_up(play):
    _, lines = with_ten_tokens()
    refused = "No hint in this turn: an agent would see the card that it has turned up."
    for reserve in ("reserve 1-1", "reserve deck 3"):
        typed = [*lines, reserve, "hint racer", "undo", "hint racer", "take gold"]
        out = play(typed, "--seed", 3, *PEOPLE)
        assert out.count(refused) == 1 and out.count("racer: ") == 1
        assert out.index(refused) < out.index("racer: ")


def test_agent_that_fails_in_a_hint_does_not_end_the_game(play, monkeypatch):
    def fail(agent, game):
        raise RuntimeError("out of order")

    monkeypatch.setattr("splendor_env.terminal.analyse", fail)
    out = play(["hint racer", "take W U G"], "--seed", 3)
    assert "racer has failed: out of order" in out and "takes W U G." in out


def test_last_moves_are_told_with_what_left_the_table(play):
    out = play(["take W U G", "", "board"], "--seed", 3, "--players", 3)
    told = re.findall(r"Seat \d \(\w+\) \w+s .*", out)
    assert [line[:6] for line in told] == ["Seat 0", "Seat 1", "Seat 2"] * 2
    assert told[:3] == told[3:]


def test_several_people_and_agents_share_a_terminal(play):
    arguments = ["--players", 3, "--against", "person", "--against", "greedy", "--seed", 3]
    lines = ["reserve deck 3", "", "hand", "reserve deck 2", "", "hand"]
    out = play(lines, *arguments)
    game = Game(num_players=3, seed=3)
    game.push("reserve deck 3")
    own = next(line for line in game.board(0).splitlines() if "seen by you alone" in line)
    first, second = out.split("You have reserved no card.")
    assert "reserved 1: level 3 card, face down" in first and "(you)" not in first
    assert own.strip() not in first
    assert "Seat 2 (greedy)" in second and second.count(own.strip()) == 1
    assert second.index("Round 2: seat 0 plays.") < second.index(own.strip())


def test_target_is_an_option(play, folder):
    play(["take W U G"], "--seed", 3, "--target", 21)
    [path] = folder.iterdir()
    assert load_game(path).shown.rules == standard(2, target_points=21)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--target 0", "target_points must be an integer"),
        ("--against greedy --against random --players 4", "2 agents for 3 seats; give 1 or all"),
        ("game.jsonl", "to go on with 'game.jsonl': splendor play --resume game.jsonl"),
        ("--resume no.jsonl", "no.jsonl, line 1: cannot be read"),
        ("--resume", "there is no unfinished game in"),
        ("--resume --players 2", "--players is for a new game, not for --resume"),
        ("--save no/such/x", "--save must be a file in a writable folder, not 'no/such/x'"),
        ("--record no/such/x", "--record must be a file in a writable folder, not 'no/such/x'"),
    ],
)
def test_mistakes_are_told_in_one_line(arguments, message, capsys):
    assert run("play", *arguments.split()) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and message in err


# A game is kept.


def test_quit_and_resume_go_on_in_the_same_place(play, folder):
    arguments = ["--seed", 3, "--against", "random", "--players", 3]
    first = play(["take W U G", "", "reserve deck 3", "quit"], *arguments)
    [path] = folder.iterdir()
    assert f"Go on with: splendor play --resume {path}" in first
    saved = load_game(path)
    assert saved.seats == ["person", "random", "random"]
    assert (len(saved.shown.actions), saved.final) == (4, 3)
    # The open turn is still to be confirmed.
    second = play(["undo", "reserve deck 1", "", "quit"], "--resume")
    assert "reserves a card of level 3 face down, takes gold.\nEnter to confirm" in second
    assert "The card: level 1" in second
    saved = load_game(path)
    assert saved.shown.draws[3] < 40 and len(saved.shown.actions) == 6 == saved.final
    third = play(["board"], "--resume", path, "--against", "greedy")
    assert third.startswith("Seat 0 (you) reserves a card of level 1 face down, takes gold; the")
    assert "Seat 1 (greedy) " in third
    assert len(list(folder.iterdir())) == 1


def test_saved_game_does_not_tell_what_will_come(play, folder):
    play(["take W U G", ""], "--seed", 12345678901)
    text = next(folder.iterdir()).read_text()
    assert "12345678901" not in text and "seed" not in text and "decks" not in text


def test_cards_to_come_are_drawn_anew_after_resuming(tmp_path):
    """By the seed of the record's own deal, 0, anyone could tell them."""
    kept = load_game(saved(tmp_path / "game.jsonl"))
    drawn = set()
    for seed in range(1, 6):
        table = terminal.Table(
            Console(file=io.StringIO()),
            kept.shown.rules,
            kept.seats,
            seed=seed,
            agent_seed=0,
            path=tmp_path / "game.jsonl",
        )
        table.go_on(kept)
        assert table.game.history == ["take W U G"]
        table.game.push("reserve deck 2")
        drawn.add(table.game.to_dict()["seats"][1]["reserved"][0]["card"])
    assert len(drawn) > 1


def test_whole_game_over_several_sittings_gives_a_record(play, folder, tmp_path):
    game = Game(seed=4)
    lines = moves_until(game, lambda game: game.is_over)
    half = len(lines) // 2
    people = ["--against", "person"]
    play([*lines[:half], "quit"], "--seed", 4, *people, "--no-confirm")
    [path] = folder.iterdir()
    # Cards come by another seed from here on: play what is legal then.
    saved = load_game(path)
    resumed = Game(seed=4)
    for move, draw in zip(lines[:half], saved.shown.draws, strict=True):
        resumed.push(move, None if draw < 0 else int(draw))
    assert resumed.position_hash() == saved.shown.game(half).position_hash()
    record = tmp_path / "mine.jsonl"
    out = play(["1"] * 4000, "--resume", "--no-confirm", "--record", record)
    assert f"The record of this game: {record}" in out
    assert not path.exists()
    [one] = read_records(record)
    assert verify(one) == () and one["seats"] == ["person", "person"] and "about" not in one


def test_finished_game_stays_as_its_record(play, folder):
    out = play(["1"] * 4000, "--seed", 3, "--against", "racer", "--no-confirm")
    [path] = folder.iterdir()
    assert f"The record of this game: {path}" in out
    assert re.search(r"^(You have (not )?won|You share|Nobody)", out, re.MULTILINE)
    [record] = read_records(path)
    assert verify(record) == ()
    assert run("play", "--resume") == 2
    assert run("play", "--resume", path) == 2


def test_last_turn_is_asked_about_too_and_resumes_before_it(play, folder):
    game = Game(seed=4)
    *lines, last = moves_until(game, lambda game: game.is_over)
    confirmed = []
    again = Game(seed=4)
    for move in lines:
        seat = again.player
        again.push(move)
        confirmed += [move] if again.player == seat else [move, ""]
    out = play([*confirmed, last], "--seed", 4, "--against", "person")
    assert "Game over" not in out
    [path] = folder.iterdir()
    assert load_game(path).shown.game(len(lines)).legal_moves == again.legal_moves
    out = play([last, ""], "--resume")
    assert "Game over" in out and "The record of this game" in out
    [record] = read_records(path)
    assert record["result"]["points"] == game.points


def test_abandoned_game_is_a_forfeit(play, folder):
    out = play(["take W U G", "", "abandon", "no", "abandon", "abandon"], "--seed", 3)
    assert out.count("Seat 0 then forfeits this game. Type abandon once more > ") == 2
    [record] = read_records(next(folder.iterdir()))
    assert verify(record) == ()
    assert record["result"]["forfeit"]["detail"] == "abandoned by a person"
    assert record["result"]["winners"] == [1]


def test_game_survives_a_kill(folder, play):
    """Without a chance to clean up."""
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    command = [sys.executable, "-m", "splendor_env.cli", "play", "--seed", "3"]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        try:
            process.stdin.write("take W U G\n\nreserve 2-1\n")
            process.stdin.flush()
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline:
                [path] = list(folder.glob("*.jsonl")) or [None]
                if path is not None and len(load_game(path).shown.actions) == 3:
                    break
                time.sleep(0.05)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGKILL
    out = play(["undo"], "--resume")
    assert "Seat 0 (you) reserves 2-1 (level 2" in out
    assert load_game(path).final == len(load_game(path).shown.actions) == 2


def test_ctrl_c_tells_how_to_go_on(monkeypatch, capsys, folder):
    lines = iter(["take W U G"])

    def interrupted(prompt):
        try:
            return next(lines)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr("builtins.input", interrupted)
    assert run("play", "--seed", 3) == 130
    [path] = folder.iterdir()
    assert f"Go on with: splendor play --resume {path}" in capsys.readouterr().out
    assert len(load_game(path).shown.actions) == 1


def saved(path, **changes):
    """A game that `play` could have saved, with changes of its record."""
    game = Game(seed=3)
    one = record_game(
        game.games,
        [0],
        game.rules,
        ["person", "greedy"],
        unfinished=True,
        about={"play": {"final": 1}},
    )
    write_records(path, [one | changes])
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"about": {}}, "is no saved game of `splendor play`"),
        ({"about": {"play": 1}}, "is no saved game of `splendor play`"),
        ({"about": {"play": {"final": True}}}, "is no saved game of `splendor play`"),
        ({"about": {"play": {"final": 2}}}, "about.play.final cannot be 2"),
        ({"seats": ["greedy", "person"], "about": {"play": {"final": 0}}}, "final cannot be 0"),
        ({"turns": [[0, "take W U G", "0" * 16]]}, "turn 1, seat 0: hash 0000000000000000"),
        ({"turns": [[0, "buy 3-1", "0" * 16]]}, "turn 1, seat 0: illegal action"),
        ({"seats": ["person", "nobody"]}, "unknown agent 'nobody'"),
    ],
)
def test_foreign_file_is_refused_in_one_line(changes, message, tmp_path, capsys):
    assert run("play", "--resume", saved(tmp_path / "game.jsonl", **changes)) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and message in err


def test_torn_file_is_refused_in_one_line(tmp_path, capsys):
    path = saved(tmp_path / "game.jsonl")
    for cut in (-1, -20):
        path.write_bytes(path.read_bytes()[:cut])
        assert run("play", "--resume", path) == 2
        err = capsys.readouterr().err
        assert f"{path}, line 1: torn" in err and err.count("\n") == 1
    path.write_bytes(b"\x89PNG\n")
    assert run("play", "--resume", path) == 2
    assert "line 1: not JSON" in capsys.readouterr().err


@pytest.mark.parametrize(
    "spec",
    ["external:touch owned", "examples.own_agent:1", "mcts:sims=3,eval=external:touch owned"],
)
def test_file_starts_no_program(spec, tmp_path, capsys, monkeypatch, play):
    monkeypatch.chdir(tmp_path)
    path = saved(tmp_path / "game.jsonl", seats=["person", spec])
    assert run("play", "--resume", path) == 2
    assert f"{spec!r} in seat 1 runs a program" in capsys.readouterr().err
    assert not (tmp_path / "owned").exists()
    assert "Seat 1 (greedy)" in play([""], "--resume", path, "--against", "greedy")


def test_specs_that_run_code():
    harmless = (
        "greedy",
        "onnx:a/b.onnx",
        "mcts:c_puct=1.5,eval=pretrained",
        "pretrained:ms=0.5",
    )
    assert not any(map(runs_code, harmless))
    assert all(map(runs_code, ("external:x", "a.b:c", "lookahead:eval=a.b:c,c=1")))


def test_game_that_cannot_be_kept_goes_on(play, tmp_path, monkeypatch):
    def fail(path, records):
        raise RecordError(f"cannot write {path}: No space left on device")

    monkeypatch.setattr("splendor_env.terminal.write_records", fail)
    out = play(["take W U G", ""], "--seed", 3, "--save", tmp_path / "game.jsonl")
    assert "This game is NOT kept: " in out and "Round 2" in out


# Colours.


def test_gems_are_coloured_and_their_letters_stay():
    text = coloured("Seat 0: K 1 point, cost W2 U1 gold 1, Wide open")
    assert text.plain == "Seat 0: K 1 point, cost W2 U1 gold 1, Wide open"
    assert [text.plain[span.start : span.end] for span in text.spans] == ["K", "W2", "U1", "gold 1"]


def test_names_cannot_steer_the_terminal(tmp_path, capsys):
    game = Game(seed=3)
    names = ["\x1b]0;owned\x07", "\ud800\r[bold]"]
    one = record_game(game.games, [0, 0], game.rules, names, unfinished=True)
    write_records(tmp_path / "one.jsonl", [one])
    assert run("replay", tmp_path / "one.jsonl", "--all") == 0
    out = capsys.readouterr().out
    assert "Seat 0 (?]0;owned?) takes W U G." in out and "Seat 1 (??[bold]) takes W U G." in out


def test_no_colours_where_they_are_not_wanted(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLORTERM", "truecolor")
    for file_is_terminal, no_color, has_codes in (
        (True, "", True),
        (True, "1", False),
        (False, "", False),
    ):
        monkeypatch.setenv("NO_COLOR", no_color)
        console = Console(file=io.StringIO(), force_terminal=file_is_terminal, width=80)
        console.print(coloured("take W U"))
        assert ("\x1b[" in console.file.getvalue()) == has_codes


# Replay.


@pytest.fixture
def games(tmp_path):
    """A file of two games with cards reserved face down."""
    path = tmp_path / "games.jsonl"
    for seed in (3, 4):
        game = Game(rulebook_2014(3), seed=seed)
        deal, actions, rng = game.games.copy(), [], np.random.default_rng(seed)
        while not game.is_over:
            buys = [
                a
                for a in game.legal_actions
                if "buy" in game.legal_moves[game.legal_actions.index(a)]
            ]
            blind = [a for a in game.legal_actions if 42 <= a < 45] if rng.random() < 0.3 else []
            actions.append(int(rng.choice(buys or blind or game.legal_actions)))
            game.push(actions[-1])
        append_records(
            path, [record_game(deal, actions, game.rules, ["a", "b", "c"], about={"seed": seed})]
        )
    return path


def test_replay_steps_forth_and_back(games, monkeypatch, capsys):
    lines = ["", "next", "back", "7", "end", "n", "999", "x", "0", "quit", "n"]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
    assert run("replay", games, "--game", 2) == 0
    out = capsys.readouterr().out
    last = re.search(r"of (\d+)", out)[1]
    shown = re.findall(rf"Turn (\d+) of {last}", out)
    assert shown == ["0", "1", "2", "1", "7", last, last, last, last, "0"]
    assert out.count(f"Turns are 0 to {last}; 0 is the deal.") == 2
    assert "Game over in round" in out


def test_replay_prints_a_turn_or_all(games, capsys):
    assert run("replay", games, "--turn", 5) == 0
    page = capsys.readouterr().out
    record = next(read_records(games))
    seat, *decisions, _ = record["turns"][4]
    assert page.startswith(f"Turn 5 of {len(record['turns'])}\nSeat {seat} ({'abc'[seat]}) ")
    assert page.count(f"Seat {seat} ({'abc'[seat]}) ") == len(decisions)
    assert run("replay", games, "--all") == 0
    out = capsys.readouterr().out
    assert page in out
    assert len(re.findall(r"^Turn \d+ of ", out, re.MULTILINE)) == len(record["turns"]) + 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--game 3", "--game must be 1 to 2, not 3"),
        ("--turn 9999", "the turn must be 0 to"),
        ("--view 3", "the seat must be 0 to 2, not 3"),
        ("--verify --all", "--verify and --all exclude each other"),
        ("--verify --game 1", "--verify is for all games of a file, not for --game"),
        ("--png games.jsonl", "--png must be another file than"),
        ("--verify --turn 3", "--turn is for --png or by itself, not for --verify"),
        ("--out x.jsonl", "--out needs --view"),
        ("--view 0 --game 3 --out x.jsonl", "has no game 3"),
        ("--view 3 --out x.jsonl", "line 1: seat: an integer 0 to 2, not 3"),
        ("--png no/such/x.png", "--png must be a file in a writable folder"),
        ("--gif no/such/x.gif", "--gif must be a file in a writable folder"),
    ],
)
def test_mistakes_in_replay_are_told_in_one_line(
    arguments, message, games, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert run("replay", games, *arguments.split()) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and message in err
    assert not (tmp_path / "x.jsonl").exists()


def test_verify_names_line_and_turn_of_a_flipped_bit(games, capsys):
    assert run("replay", games, "--verify") == 0
    assert capsys.readouterr().out == "2 of 2 games agree with the rules\n"
    text = bytearray(games.read_bytes())
    second = text.index(b"\n") + 1
    digit = text.index(b'"],[', second) - 1  # the last of the first hash
    text[digit] ^= 1
    games.write_bytes(text)
    assert run("replay", games, "--verify") == 1
    out = capsys.readouterr().out
    assert f"{games}, line 2: turn 1, seat 0: hash " in out and " follows" in out
    assert out.endswith("1 of 2 games agree with the rules\n")
    games.write_bytes(text[:-5])
    assert run("replay", games, "--verify") == 1
    assert f"{games}, line 2: torn" in capsys.readouterr().out
    assert run("replay", games.with_name("none.jsonl"), "--verify") == 2


def test_view_leaves_no_byte_of_what_a_seat_did_not_know(games, tmp_path, capsys):
    out = tmp_path / "seen.jsonl"
    assert run("replay", games, "--view", 1, "--out", out) == 0
    printed = capsys.readouterr().out
    assert f"wrote {out}, what seat 1 knew: games 2, deals 2" in printed
    assert printed.splitlines()[1].startswith("Beware: from a guessable seed a deal can be made")
    for full, seen, line in zip(
        read_records(games), read_records(out), out.read_text().splitlines(), strict=True
    ):
        assert seen == redact(full, 1)
        secret, num_secrets = set(), 0
        for seat, *decisions, _ in full["turns"]:
            for text in decisions:
                if seat != 1 and text.startswith("reserve deck"):
                    secret.add(text.partition(" draws ")[2])
        for card in secret:
            if f"shows {card}" not in line:  # else bought later, before all eyes
                num_secrets += 1
                assert card not in line
        assert num_secrets > 0 and "seed" not in line
    assert run("replay", out, "--verify") == 0
    assert "2 of them are redacted" in capsys.readouterr().out
    assert run("replay", out, "--view", 0) == 2
    assert "this record holds what seat 1 saw, not seat 0" in capsys.readouterr().err
    assert run("replay", games, "--view", 0, "--out", games) == 2


def test_replay_of_a_seat_shows_its_secrets_alone(games, capsys):
    outs = []
    for options in ([], ["--view", 1]):
        assert run("replay", games, "--all", *options) == 0
        outs.append(capsys.readouterr().out)
    assert "the card: " not in outs[0] and "seen by you alone" not in outs[0]
    assert "the card: " in outs[1] and "seen by you alone" in outs[1]


def test_forfeit_and_unfinished_games_say_how_they_end(tmp_path, capsys):
    game = Game(seed=3)
    forfeit = {"seat": 1, "reason": "failed", "detail": "no answer"}
    for options, told in (
        ({"forfeit": forfeit}, "Seat 1 forfeits the game (failed: no answer)."),
        ({"unfinished": True}, "The record ends here; the game goes on."),
    ):
        one = record_game(game.games, [0], game.rules, ["a", "b"], **options)
        write_records(tmp_path / "one.jsonl", [one])
        assert run("replay", tmp_path / "one.jsonl", "--turn", 1) == 0
        out = capsys.readouterr().out
        assert told in out
        over = "Game over in round 1: seat 1 has forfeited it.\nSeat 0 wins.\n"
        assert (over in out) == ("forfeit" in options)
        assert ("seat 1 plays" in out) != ("forfeit" in options)


def test_pictures_of_a_forfeited_game_show_its_end(tmp_path):
    image = pytest.importorskip("PIL.Image")
    game = Game(num_players=3, seed=3)
    forfeit = {"seat": 1, "reason": "failed", "detail": "no answer"}
    for name, options in (("over", {"forfeit": forfeit}), ("open", {"unfinished": True})):
        one = record_game(game.games, [0], game.rules, ["a", "b", "c"], **options)
        write_records(tmp_path / f"{name}.jsonl", [one])
        for kind in ("png", "gif"):
            out = tmp_path / f"{name}.{kind}"
            assert run("replay", tmp_path / f"{name}.jsonl", f"--{kind}", out) == 0
    shown = terminal.RecordedGame(next(read_records(tmp_path / "over.jsonl")), None)
    assert [shown.forfeited_by(turn) for turn in (0, 1)] == [None, 1]
    for kind in ("png", "gif"):
        with (
            image.open(tmp_path / f"over.{kind}") as over,
            image.open(tmp_path / f"open.{kind}") as open_,
        ):
            for film in (over, open_):
                film.seek(film.n_frames - 1 if kind == "gif" else 0)
            assert over.convert("RGB").tobytes() != open_.convert("RGB").tobytes()


def test_pictures_are_small_and_hold_the_end(games, tmp_path, capsys):
    image = pytest.importorskip("PIL.Image")
    png, gif = tmp_path / "turn.png", tmp_path / "game.gif"
    assert run("replay", games, "--png", png, "--turn", 9) == 0
    assert run("replay", games, "--gif", gif) == 0
    turns = len(next(read_records(games))["turns"])
    assert f"wrote {gif}: {turns} turns" in capsys.readouterr().out
    with image.open(png) as one:
        assert one.format == "PNG" and one.size[0] == 800
    assert png.stat().st_size < 60_000
    with image.open(gif) as film:
        assert (film.format, film.n_frames, film.size) == ("GIF", turns + 1, one.size)
        assert film.info["duration"] == 900
        film.seek(turns)
        assert film.info["duration"] == 6000
    assert gif.stat().st_size < 15_000 * turns


def test_record_of_others_is_refused_in_words(tmp_path, capsys):
    path = tmp_path / "bad.jsonl"
    path.write_text("{}\n")
    assert run("replay", path) == 2
    assert f"{path}, line 1: record: version None, this reads 1" in capsys.readouterr().err
    with pytest.raises(SplendorError, match="no saved game"):
        load_game(Path(os.devnull))
