import base64
import io
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from splendor_env.core.state import EndReason, standard
from splendor_env.evaluation import page
from splendor_env.evaluation.arena import GAME_RESULT
from splendor_env.evaluation.calibration import calibrate
from splendor_env.evaluation.report import MIXED, Match, tabulate, write_report

pytest.importorskip("matplotlib")
pytest.importorskip("openskill")

NASTY = '<script>alert("x")</script> & $a_b$'
VOID = {"meta", "img"}


def results(seats, winners):
    """Games of the agents in `seats` (G, N), each won by one seat; every N games are one deal."""
    seats, num_players = np.array(seats), len(seats[0])
    table = np.zeros(len(seats), GAME_RESULT)
    table["deal"] = np.arange(len(seats)) // num_players
    table["agents"] = -1
    table["agents"][:, :num_players] = seats
    table["share"][np.arange(len(seats)), winners] = 1
    table["points"][:, :num_players] = 10
    table["points"][np.arange(len(seats)), winners] = 16
    table["num_cards"][:, :num_players] = 12
    table["nobles"][:, 0] = 1
    table["rounds"] = 28
    table["end_reason"] = EndReason.TARGET
    table["offender"] = -1
    table["decisions"][:, :num_players] = 10
    table["seconds"][:, :num_players] = 0.02
    return table


def won_by(agent, seats):
    return [list(row).index(agent) for row in seats]


@pytest.fixture(scope="module")
def table_of_two():
    """Agents 0, 1, 2: 0 wins 3 of 4 against 1 and all against 2, 1 and 2 are even."""
    seats = [(0, 1), (1, 0), (0, 1), (1, 0)]
    zero_one = results(seats, [0, 1, 0, 0])
    seats = [(0, 2), (2, 0), (0, 2), (2, 0)]
    zero_two = results(seats, won_by(0, seats))
    one_two = results([(1, 2), (2, 1), (1, 2), (2, 1)], [0, 0, 0, 0])
    matches = [Match(0, 1, zero_one), Match(0, 2, zero_two), Match(1, 2, one_two)]
    expected = np.array([0.2, 0.8, 0.8, 0.2])
    calibration = calibrate(expected, np.array([0.0, 1, 1, 0]), np.arange(4))
    return tabulate(["a", "b", NASTY], matches, standard(2), 2, {"a": calibration})


def test_figures_of_two_players_are_those_of_the_results(table_of_two):
    table = table_of_two
    assert table["players"] == 2 and table["games"] == 12
    assert table["truncated"] == table["illegal"] == table["failed"] == table["ties"] == 0
    shares = {(pair["one"], pair["rest"]): pair["win_share"] for pair in table["pairs"]}
    assert shares == {("a", "b"): 0.75, ("a", NASTY): 1.0, ("b", NASTY): 0.5}
    for pair in table["pairs"]:
        assert 0 <= pair["low"] <= pair["win_share"] <= pair["high"] <= 1
        assert pair["low"] < pair["high"]
    first, second = table["pairs"][0]["by_seat"]
    assert (first["games"], first["win_share"]) == (2, 1.0)
    assert (second["games"], second["win_share"]) == (2, 0.5)

    ladder = {row["agent"]: row for row in table["ladder"]}
    assert [row["agent"] for row in table["ladder"]] == ["a", "b", NASTY]
    assert ladder[NASTY]["rating"] == 0 and f"{NASTY} = 0" in table["scale"]
    assert ladder["a"]["win_share"] == pytest.approx((0.75 + 1) / 2)
    assert ladder["b"]["win_share"] == pytest.approx((0.25 + 0.5) / 2)
    assert ladder["a"]["nash_weight"] == 1 and table["cycles_of_three"] == []

    agent = table["agents"][0]
    assert (agent["agent"], agent["games"], agent["decisions"]) == ("a", 8, 80)
    assert agent["seconds_per_decision"] == pytest.approx(0.002)
    assert agent["points"]["mean"] == pytest.approx((7 * 16 + 10) / 8)
    assert agent["nobles"]["mean"] == 0.5 and agent["rounds"]["p95"] == 28
    assert table["calibration"]["a"]["error"] == pytest.approx(0.2)
    assert table["calibration"]["a"]["decisions"] == [2, 2]


def test_games_that_end_badly_are_counted_and_their_causer_is_named():
    seats = [(0, 1), (1, 0), (0, 1), (1, 0)]
    one = results(seats, won_by(0, seats))
    one["offender"][0], one["share"][0, :2] = 1, (1, 0)
    one["offender"][1], one["has_failed"][1] = 1, True
    one["end_reason"][2], one["share"][2, :2] = EndReason.ROUND_LIMIT, 0.5
    one["end_reason"][3], one["share"][3, :2] = EndReason.STALEMATE, 0.5
    one["end_reason"][:2] = EndReason.RUNNING
    table = tabulate(["a", "b"], [Match(0, 1, one)], standard(2), 0, {})
    counts = {"illegal": 1, "failed": 1, "truncated": 1, "stalemates": 1, "ties": 1}
    assert {key: table[key] for key in counts} == counts
    assert {key: table["pairs"][0][key] for key in counts} == counts
    causes = [(row["illegal"], row["failed"]) for row in table["agents"]]
    assert causes == [(0, 1), (1, 0)]  # seat 1 was agent 1 in game 0, and agent 0 in game 1


def table_of_three():
    matches = []
    for one in range(3):
        for rest in range(3):
            if one != rest:
                seats = [[one if seat == own else rest for seat in range(3)] for own in range(3)]
                # The lower agent wins, from its first seat.
                winners = [row.index(min(one, rest)) for row in seats]
                matches.append(Match(one, rest, results(seats, winners)))
    mixed = [(0, 1, 2), (1, 2, 0), (2, 0, 1)] * 4
    matches.append(Match(MIXED, MIXED, results(mixed, won_by(0, mixed))))
    return tabulate(["a", "b", NASTY], matches, standard(3), 0, {})


def test_figures_of_three_players_are_for_one_and_for_the_others():
    table = table_of_three()
    assert table["players"] == 3 and table["games"] == 6 * 3 + 12
    assert len(table["pairs"]) == 6
    ladder = {row["agent"]: row for row in table["ladder"]}
    assert ladder["a"]["win_share"] == 1 and ladder["a"]["rest_share"] == 1
    assert ladder["b"]["win_share"] == 0.5 and ladder["b"]["rest_share"] == 0.5
    assert ladder[NASTY]["win_share"] == 0 and ladder[NASTY]["rest_share"] == 0
    assert table["ladder"][0]["agent"] == "a"
    assert table["mixed_deals"] == 4 and "cycles_of_three" not in table
    assert sum(seat["win_share"] for seat in table["seats"]) == pytest.approx(1)


class Page(HTMLParser):
    """Checks that tags close in order, and collects what a test asks for."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.attributes, self.text = [], set(), [], ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def written(table_of_two, tmp_path_factory):
    """A report in which an agent has a name and a spec that are markup, and its folder."""
    folder = tmp_path_factory.mktemp("report")
    report = {
        "version": 1,
        "about": {"league": NASTY},
        "played_by": [{"command": f"splendor league {NASTY}"}, {"cpu": "a fast one"}],
        "written_by": {"command": "splendor league x --report-only"},
        "calibration_games": 7,
        "agents": {"a": "greedy", "b": f"external:{NASTY}", NASTY: "random"},
        "tables": {"2": table_of_two, "3": table_of_three()},
    }
    write_report(report, folder)
    return report, folder


def test_json_has_every_figure_that_was_computed(written):
    report, folder = written
    assert json.loads((folder / "report.json").read_text("utf-8")) == report


def test_page_asks_for_nothing_from_elsewhere(written):
    text = (written[1] / "report.html").read_text("utf-8")
    shown = Page(text)
    assert not shown.seen & {"script", "link", "iframe", "object", "base", "form"}
    places = [value for _, key, value in shown.attributes if key in ("src", "href", "srcset")]
    assert len(places) > 7 + 8
    assert all(place.startswith(("#", "data:image/png;base64,")) for place in places)
    without_pictures = re.sub(r"data:image/png;base64,[A-Za-z0-9+/=]+", "", text)
    assert "http" not in without_pictures and "url(" not in without_pictures
    assert "@import" not in without_pictures and "//" not in without_pictures


def test_names_and_specs_are_shown_as_they_are_and_never_as_markup(written):
    shown = Page((written[1] / "report.html").read_text("utf-8"))
    assert f"League {NASTY}" in shown.text and f"external:{NASTY}" in shown.text


def test_page_says_what_its_figures_rest_on(written):
    text = Page((written[1] / "report.html").read_text("utf-8")).text
    assert f"Games played by (call 1 of 2)whatvaluecommandsplendor league {NASTY}" in text
    assert "Games played by (call 2 of 2)whatvaluecpua fast one" in text
    assert "Report written bywhatvaluecommandsplendor league x --report-only" in text
    assert "a sample of up to 7 games of each of its matches" in text
    assert "The intervals rest on 4 deals only and are too narrow." in text
    drawn = {path.stem: path.read_bytes() for path in written[1].glob("*.png")}
    text = Page(page.render(written[0] | {"played_by": []}, drawn)).text
    assert "machine the games were played was not noted" in text and "(call" not in text


def test_pictures_are_on_the_page_and_small(written):
    folder = written[1]
    text = (folder / "report.html").read_text("utf-8")
    kinds = {"ladder", "matrix", "seats", "games"}
    names = {f"{kind}_{players}p" for kind in kinds for players in (2, 3)} | {"calibration_2p"}
    assert {path.stem for path in folder.glob("*.png")} == names
    for path in folder.glob("*.png"):
        content = path.read_bytes()
        assert base64.b64encode(content).decode() in text
        assert len(content) < 50_000
        assert min(Image.open(io.BytesIO(content)).size) > 150


def test_every_picture_has_a_text_and_every_table_its_figures(written):
    shown = Page((written[1] / "report.html").read_text("utf-8"))
    images = [pair for pair in shown.attributes if pair[:2] == ("img", "alt")]
    assert len(images) == 9 and all(value for _, _, value in images)
    for figure in ("75.0 %", "87.5 %", "2.00 ms", "greedy"):
        assert figure in shown.text
