"""The page on the protocol says what is sent: its transcript replays on both sides."""

import json
import re
import sys
from pathlib import Path

from splendor_env import Game, standard
from splendor_env.agents import make_agent
from splendor_env.agents.engine import Engine
from splendor_env.agents.external import ExternalAgent
from splendor_env.agents.protocol import MAX_LINE, MAX_NAME, PROTOCOL_VERSION
from splendor_env.evaluation import play_match

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")

ENGINE = """
import json, sys
answers = json.load(open(sys.argv[1]))
received = open(sys.argv[2], "w")
for line in sys.stdin:
    received.write(line)
    received.flush()
    if json.loads(line)["type"] in ("hello", "position"):
        print(answers.pop(0), flush=True)
"""


def block(language):
    [text] = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return text


def test_the_transcript_replays_on_both_sides(tmp_path):
    """An engine that gives its answers is sent its questions, to which ours gives these answers."""
    lines = block("transcript").splitlines()
    answers = [line[2:] for line in lines if line.startswith("< ")]
    script, received = tmp_path / "engine.py", tmp_path / "received"
    script.write_text(ENGINE)
    (tmp_path / "answers").write_text(json.dumps(answers))
    arena = ExternalAgent([sys.executable, str(script), str(tmp_path / "answers"), str(received)])
    play_match(arena, make_agent("random"), standard(2, max_rounds=1), 2)
    arena.close()
    assert arena.failures == {}

    engine = Engine("random")
    replayed = []
    for sent in received.read_bytes().splitlines(keepends=True):
        replayed.append("> " + sent.decode())
        answer, is_last = engine.answer(sent)
        replayed += ["< " + answer.decode()] if answer else []
    assert is_last
    assert len(replayed) == len(lines)
    for line, expected in zip(replayed, lines, strict=True):
        pattern = ".*".join(map(re.escape, expected.split("...")))
        assert re.fullmatch(pattern, line.rstrip("\n"))


def test_the_position_is_what_a_seat_sees():
    position = json.loads(block("json"))
    game = Game.from_dict({**position, "rules": "rulebook_2014"})
    seen = game.seen_by(0)
    del seen["rules"]
    assert seen == position
    fields = re.findall(
        r"^\| ((?:`\w+`(?:, )?)+) \| [^|]*(?:string|integer|object|array)", PAGE, re.M
    )
    documented = set(re.findall(r"\w+", " ".join(fields)))
    assert (
        set(position) | set(position["seats"][0]) - {"bonuses", "points", "num_cards"} <= documented
    )


def test_the_numbers_on_the_page():
    assert f"# The engine protocol, version {PROTOCOL_VERSION}\n" in PAGE
    assert f"at most {MAX_LINE:,} bytes" in PAGE
    assert PAGE.count(f"1 to {MAX_NAME} printable characters") == 2
