"""The web table's page in a real browser, by clicks and keys."""

import json
import random

import pytest

from splendor_env.record import redact, verify


def advance(client, path, secrets, until, choose):
    """Make moves for all seats, which are persons, until a view of the mover is as wanted."""
    view = client.get(path)
    while not until(view):
        secret = secrets[view["player"]]
        view = client.get(path, secret)
        move = choose(view["legal_moves"])
        client.post(f"{path}/moves", {"move": move, "version": view["version"]}, secret)
        view = client.get(path)
        assert not view["is_over"]
    return view


def make_moves(client, path, secrets, moves):
    """Make these moves, whoever's turn it is."""
    rest = iter(moves)
    for _ in moves:
        view = client.get(path)
        body = {"move": next(rest), "version": view["version"]}
        client.post(f"{path}/moves", body, secrets[view["player"]])


def key(name):
    return f'[data-key="{name}"]'


def confirm(page):
    """Send what is staged, and wait for the answer."""
    version = page.locator("main").get_attribute("data-version")
    page.click(key("confirm"))
    page.wait_for_function(
        "version => document.querySelector('main').dataset.version !== version", arg=version
    )


def play_by_clicking(page):
    """Do something sensible in the viewer's turn."""
    if page.locator(".token-button").count():
        while page.locator(key("confirm")).is_disabled():
            page.locator(".token-button:not(.staged)").first.click()
    elif page.locator(".noble-offers").count():
        page.locator(".noble-offers button").first.click()
    elif page.locator(".card.can-buy").count():
        page.locator(".card.can-buy").first.click()
    elif page.locator("button.pile.open").count():
        for _ in range(3):
            piles = page.locator("button.pile.open:not(.staged)")
            if piles.count():
                piles.first.click()
    elif page.locator("button.deck").count():
        page.locator("button.deck").first.click()
    else:
        page.get_by_role("button", name="Pass").click()
    confirm(page)


def scroll_width(page):
    return page.evaluate("document.documentElement.scrollWidth - window.innerWidth")


# Whole games.


@pytest.mark.slow
def test_game_against_greedy_is_played_to_its_end_by_clicking(visit, table_server):
    page = visit().open()
    page.select_option("#kind-1", "greedy")
    page.fill("#kind-0 + input", "Ada")
    page.click("text=More options")
    page.select_option("#delay", "0")
    page.fill("#seed", "11")
    page.click("text=Start the game")
    for _ in range(300):
        page.wait_for_selector("main.my-turn, main.over")
        if page.locator("main.over").count():
            break
        play_by_clicking(page)
    view = table_server.get(f"/api/tables/{page.url.split('/')[-3]}")
    assert view["is_over"] and view["rules"]["target_points"] <= max(view["points"])
    rows = page.locator(".result tbody tr").all_inner_texts()
    assert sorted(int(row.split("\t")[1]) for row in rows) == sorted(view["points"])
    with page.expect_download() as download:
        page.click(key("save"))
    record = json.loads(download.value.path().read_text())
    assert record["seats"] == ["Ada", "greedy"]
    assert verify(record) == ()

    page.click(key("replay"))
    page.wait_for_selector(".steps")
    page.wait_for_selector(f"text=0 of {len(view['history'])}")


def test_agents_play_while_a_page_watches(visit, table_server):
    path, _ = table_server.open("greedy", "random", delay_ms=30, target_points=3)
    page = visit().watch(path)
    page.wait_for_selector(".result", timeout=30_000)
    assert "has won" in page.locator(".status-line h1").inner_text()
    assert page.locator("button.card").count() == 12  # for a look only
    assert page.locator("button.pile, button.deck").count() == 0


# Steps of a turn.


def test_tokens_are_staged_cleared_and_taken(visit, table_server):
    path, secrets = table_server.open(None, None)
    page = visit().sit(path, 0, secrets[0])
    page.click(key("pile W"))
    page.click(key("pile W"))
    assert page.locator(".pile .mark").all_inner_texts() == ["+2"]
    assert page.locator("button.pile.open").count() == 0  # two alike leave no room for more
    assert "0 + 2 = 2 of 10" in page.locator(".purse").inner_text()
    page.click(key("clear"))
    assert page.locator(".mark").count() == 0
    for color in "WKU":
        page.click(key(f"pile {color}"))
    page.click(key("pile K"))
    page.click(key("pile R"))
    assert table_server.get(path)["history"] == []
    confirm(page)
    assert table_server.get(path)["history"][0]["move"] == "take W U R"
    assert "person 1 is to move" in page.locator("#live").inner_text()
    assert page.locator("button.pile").count() == 0


def test_three_tokens_are_taken_on_a_phone_without_scrolling_in_between(visit, table_server):
    path, secrets = table_server.open(None, "greedy")
    page = visit(viewport={"width": 390, "height": 664}).sit(path, 0, secrets[0])
    # The bank is at the lower edge, where the bar of the choice comes to lie.
    page.locator(".bank").evaluate("bank => bank.scrollIntoView({block: 'end'})")
    for color in "WUG":
        box = page.locator(key(f"pile {color}")).bounding_box()
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page.locator("[aria-label=Chosen] li").count() == 3
    choice = page.locator(".choice").bounding_box()
    bank = page.locator(".bank").bounding_box()
    assert bank["y"] >= 0 and bank["y"] + bank["height"] <= choice["y"]
    confirm(page)
    assert table_server.get(path)["history"][0]["move"] == "take W U G"


def test_return_step_gives_back_what_was_chosen(visit, table_server):
    path, secrets = table_server.open(None, None)
    takes = ["take W U G", "take W U R", "take W U K", "take G R K"]
    moves = [move for take in takes for move in (take, "reserve deck 1")]
    make_moves(table_server, path, secrets, moves[:-1])
    page = visit().sit(path, 0, secrets[0])
    assert page.locator(".choice h2").inner_text() == "Return 2 tokens"
    assert page.locator(key("confirm")).is_disabled()
    page.click(key("back W"))
    page.click(key("back W"))
    assert page.locator(key("confirm")).inner_text() == "Return W W"
    page.keyboard.press("Escape")
    page.click(key("back W"))
    page.click(key("back R"))
    confirm(page)
    page.wait_for_selector("text=person 1 is to move")
    history = [entry["move"] for entry in table_server.get(path)["history"]]
    assert history[-2:] == ["return W", "return R"]
    assert table_server.get(path)["tokens_total"][0] == 10


def test_noble_is_chosen_among_several(visit, table_server):
    path, secrets = table_server.open(None, None, seed=162)
    chooser = random.Random(2)

    def choose(moves):
        buys = [move for move in moves if move.startswith("buy")]
        threes = [move for move in moves if move.startswith("take") and len(move) > len("take W U")]
        return chooser.choice(buys or threes or moves)

    view = advance(table_server, path, secrets, lambda view: view["phase"] == "noble", choose)
    seat = view["player"]
    page = visit().sit(path, seat, secrets[seat])
    assert page.locator(".choice h2").inner_text() == "Choose a noble"
    assert page.locator(".nobles button.noble").count() == 2
    offers = page.locator(".noble-offers button")
    names = offers.evaluate_all("nodes => nodes.map(node => node.ariaLabel)")
    noble = view["position"]["nobles"][1]["noble"]
    colors = ("white", "blue", "green", "red", "black")
    asked = ", ".join(
        f"{count} {color}" for count, color in zip(noble, colors, strict=True) if int(count)
    )
    assert f"Noble 2, 3 points, asks for {asked} bonus cards" in names
    page.click(key("noble 2"))
    confirm(page)
    owners = [noble["owner"] for noble in table_server.get(path)["position"]["nobles"]]
    assert owners == [None, seat, None]
    assert page.locator(".nobles .owner").inner_text() == f"person {seat} (you)"


def test_gold_pays_for_a_colour_where_the_rules_leave_the_choice(visit, table_server):
    path, secrets = table_server.open(None, None, rules="rulebook_2014", seed=2)
    chooser = random.Random(0)

    def choose(moves):
        return chooser.choice([move for move in moves if move.startswith("buy")] or moves)

    view = advance(table_server, path, secrets, lambda view: view["phase"] == "pay", choose)
    seat = view["player"]
    page = visit().sit(path, seat, secrets[seat])
    assert page.locator(".choice h2").inner_text() == "Choose how to pay"
    page.click(key("pay gold for K"))
    assert page.locator(".look strong").inner_text() == "K1 gold 2"
    page.click(key("clear"))
    assert page.locator(".look strong").inner_text() == "K2 gold 1"
    page.click(key("pay gold for K"))
    confirm(page)
    assert table_server.get(path)["history"][-1]["move"] == "pay gold for K"


def test_blind_reserve_reaches_nobody_else(visit, table_server):
    path, secrets = table_server.open(None, None)
    one, other, spectator = visit(), visit(), visit()
    own_page = one.sit(path, 0, secrets[0])
    other_page, public_page = other.sit(path, 1, secrets[1]), spectator.watch(path)
    own_page.click(key("deck 3"))
    assert "Only you will see the card" in own_page.locator(".choice").inner_text()
    confirm(own_page)
    card = table_server.get(path, secrets[0])["position"]["seats"][0]["reserved"][0]["card"]
    own_page.wait_for_selector(key("card reserved 1"))
    face_down = "[aria-label='reserved 1: a card of level 3, face down']"
    for page in (other_page, public_page):
        page.wait_for_selector(face_down)
    assert own_page.locator(face_down).count() == 0
    other_page.click(key("pile W"))
    confirm(other_page)
    own_page.wait_for_selector("main.my-turn")

    def sent(visitor):
        """All that came, but for the list of all cards."""
        return "".join(body for url, body in visitor.bodies if not url.endswith("/api/setup"))

    assert card in sent(one)
    assert card not in sent(other) + sent(spectator)
    for visitor in (one, other, spectator):
        assert not any(secret in sent(visitor) for secret in secrets.values())
        assert not any(
            secret in request.url for secret in secrets.values() for request in visitor.asked
        )


def test_card_shows_what_it_still_costs_and_is_bought_or_reserved(visit, table_server):
    path, secrets = table_server.open(None, None)
    make_moves(table_server, path, secrets, ["take W U G", "take W U R"])
    page = visit().sit(path, 0, secrets[0])
    missing = table_server.get(path, secrets[0])["missing"]["3-2"]
    words = "missing " + " ".join(f"{letter}{count}" for letter, count in missing.items())
    page.hover(key("card 3-2"))
    assert page.locator(f"{key('card 3-2')} .missing").inner_text() == words
    page.click(key("card 3-2"))
    assert page.locator(key("buy")).is_disabled()
    card = table_server.get(path)["position"]["market"]["3-2"]
    confirm(page)
    reserved = table_server.get(path)["position"]["seats"][0]["reserved"]
    assert [entry["card"] for entry in reserved] == [card]
    assert page.locator(f"{key('card 3-2')} .fresh").count() == 1  # what has come in its place


def test_moves_of_the_list_are_filtered_and_confirmed(visit, table_server):
    path, secrets = table_server.open(None, None)
    page = visit().sit(path, 0, secrets[0])
    page.click(".all-moves summary")
    page.fill(key("filter"), "reserve 2-")
    assert page.locator(".move-list button").all_inner_texts() == [
        f"reserve 2-{slot}" for slot in (1, 2, 3, 4)
    ]
    page.hover(key("move reserve 2-3"))
    assert "glow" in page.locator(key("card 2-3")).get_attribute("class")
    page.click(key("move reserve 2-3"))
    assert table_server.get(path)["history"] == []
    confirm(page)
    assert table_server.get(path)["history"][0]["move"] == "reserve 2-3"


# Coming, going and coming back.


def test_reloaded_page_and_kept_seat_lead_back_to_the_table(visit, table_server):
    path, secrets = table_server.open(None, "greedy")
    visitor = visit()
    page = visitor.sit(path, 0, secrets[0])
    for color in "WUG":
        page.click(key(f"pile {color}"))
    confirm(page)
    page.wait_for_selector("main.my-turn")
    before = page.locator(".log li").all_inner_texts()
    page.reload()
    page.wait_for_selector("main.my-turn")
    assert page.locator(".log li").all_inner_texts() == before
    page = visitor.open("#/")
    page.click("text=person 0 with greedy")
    page.wait_for_selector("main.my-turn")
    assert secrets[0] in page.url
    play_by_clicking(page)
    assert len(table_server.get(path)["history"]) > len(before)


def test_page_recovers_when_the_server_could_not_be_reached(visit, table_server):
    path, secrets = table_server.open(None, None)
    visitor = visit()
    page = visitor.sit(path, 1, secrets[1])
    visitor.context.set_offline(True)
    make_moves(table_server, path, secrets, ["take W U G"])
    page.wait_for_selector("text=does not answer")
    page.evaluate(COUNT_REWRITES)
    page.wait_for_timeout(1200)  # and two more tries
    assert page.evaluate("rewrites") == 0
    visitor.context.set_offline(False)
    page.wait_for_selector("main.my-turn")
    visitor.complaints.clear()  # the browser reports each request that failed


COUNT_REWRITES = """() => {
  window.rewrites = 0;
  const alert = document.querySelector("main > .notice");
  new MutationObserver(() => window.rewrites++).observe(alert, { childList: true });
}"""
"""Counts how often a screen reader would read the notice out."""


def test_seat_is_handed_to_an_agent_and_taken_back(visit, table_server):
    path, secrets = table_server.open(None, None)
    page = visit().sit(path, 0, secrets[0])
    page.click(".tools summary")
    page.select_option(key("hand-over"), "greedy")
    page.click("text=Hand over")
    page.wait_for_selector("text=person 1 is to move")
    assert table_server.get(path)["seats"][0]["agent"] == "greedy"
    page.locator(".choice").get_by_role("button", name="Take my seat back").click()
    make_moves(table_server, path, secrets, ["take W"])
    page.wait_for_selector("main.my-turn")


def test_resigning_ends_the_game_after_a_question(visit, table_server):
    path, secrets = table_server.open(None, None)
    page = visit().sit(path, 0, secrets[0])
    page.click(".tools summary")
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.click(key("resign"))
    assert not table_server.get(path)["is_over"]
    page.once("dialog", lambda dialog: dialog.accept())
    page.click(key("resign"))
    page.wait_for_selector(".result")
    assert page.locator(".status-line h1").inner_text() == "person 1 has won"
    assert "You forfeited the game." in page.locator(".status-line").inner_text()
    assert page.locator(".result .winner th").inner_text() == "person 1 ★"
    assert page.locator(key("resign")).count() == 0
    page.click(key("replay"))
    page.wait_for_selector("text=0 of 0")
    assert "person 0 forfeited the game." in page.locator(".status-line").inner_text()


def test_shortened_and_mistyped_links_show_the_table(visit, table_server):
    path, secrets = table_server.open(None, None)
    table = path.split("/")[-1]
    page = visit().open(f"#/table/{table}")
    page.wait_for_selector("text=You are watching")
    page = visit().open(f"#/table/{table}/7/{secrets[0]}")  # the secret alone says who it is
    page.wait_for_selector("main.my-turn")
    assert page.locator(".seat h3").first.inner_text() == "person 0 (you)"


def test_wrong_secret_and_unknown_table_are_told(visit, table_server):
    path, _ = table_server.open(None, None)
    visitor = visit()
    page = visitor.open(f"#/table/{path.split('/')[-1]}/0/wrong")
    page.wait_for_selector("text=wrong secret")
    page = visitor.open("#/watch/nowhere")
    page.wait_for_selector("text=no such table")
    page = visitor.open("#/table/")
    page.wait_for_selector("main > .notice:not([hidden])")
    visitor.complaints.clear()  # the browser reports both answers


def test_links_for_several_persons_open_their_seats(visit, table_server):
    page = visit().open()
    page.check("input[name=players][value='3']")
    page.select_option("#kind-1", "person")
    page.fill("#kind-1 + input", "<b onclick=alert(1)>Bo</b>")
    page.click("text=Start the game")
    links = page.locator(".invite input").evaluate_all("fields => fields.map(f => f.value)")
    assert len(links) == 3  # two persons, and one for watching
    assert page.evaluate("document.activeElement.id") == "main"
    page.locator("text=Sit here").first.click()
    page.wait_for_selector("main.my-turn")
    assert page.evaluate("document.activeElement.id") == "main"
    page.click("text=New game")
    page.wait_for_selector("text=Your seats")
    assert page.locator(".kept").count() == 1  # who sits knows no longer the others' links
    page = visit().open("#" + links[1].partition("#")[2])
    page.wait_for_selector("text=<b onclick=alert(1)>Bo</b> (you)")
    assert page.locator("main b").count() == 0


def test_game_is_started_once_however_often_it_is_clicked(visit, table_server):
    visitor = visit()
    page = visitor.open()
    page.wait_for_selector("form")
    page.evaluate("for (let i = 0; i < 3; i++) document.querySelector('[type=submit]').click()")
    page.wait_for_selector("main.my-turn")
    assert sum(request.method == "POST" for request in visitor.asked) == 1


def test_rules_in_short_are_those_of_the_table(visit, table_server):
    path, _ = table_server.open(None, None, rules="no_gold_small_table", target_points=21)
    page = visit().watch(path)
    page.click("text=The rules in short")
    words = page.locator(".rules ul").inner_text()
    assert "When somebody has 21 points" in words and "worth 3 points" in words
    assert "gold" not in words.lower()


# Replays.


@pytest.fixture(scope="module")
def record(table_server):
    """A whole game in which seat 0 reserves from a deck at decision 0."""
    path, secrets = table_server.open(None, "random", target_points=4, seed=3)
    moves = iter(["reserve deck 2"])

    def choose(legal):
        buys = [move for move in legal if move.startswith("buy")]
        return next(moves, None) or (buys or legal)[0]

    table_server.finish(path, secrets[0], choose)
    return table_server.get(f"{path}/record")


def open_record(visitor, record, folder):
    file = folder / "games.jsonl"
    file.write_text(f"{json.dumps(record)}\n")
    page = visitor.open("#/replay")
    page.set_input_files("#file", file)
    page.wait_for_selector(".steps")
    page.wait_for_selector(".market .card")
    return page


def test_replay_slides_through_a_record_as_each_seat_saw_it(visit, record, tmp_path):
    visitor = visit()
    page = open_record(visitor, record, tmp_path)
    decisions = sum(len(turn) - 2 for turn in record["turns"])
    page.wait_for_selector(f"text=0 of {decisions}")
    page.click("[aria-label=Forward]")
    page.wait_for_selector(f"text=1 of {decisions}")
    face_down = page.locator("[aria-label*='face down']")
    assert face_down.count() == 0  # all hands are open
    page.select_option("#viewer", "1")
    face_down.wait_for()
    page.select_option("#viewer", "0")
    face_down.wait_for(state="detached")
    slider = page.locator("input[type=range]")
    slider.focus()
    page.keyboard.press("End")
    page.wait_for_selector(f"text={decisions} of {decisions}")
    points = page.locator(".seat header .points").all_inner_texts()
    assert [int(text.split()[0]) for text in points] == record["result"]["points"]
    page.reload()
    page.wait_for_selector(f"text={decisions} of {decisions}")
    assert page.locator("#viewer").input_value() == "0"


def test_replay_of_a_redacted_record_offers_its_own_seat_only(visit, record, tmp_path):
    page = open_record(visit(), redact(record, 1), tmp_path)
    assert page.locator("#viewer option").all_inner_texts() == ["a spectator", "random"]
    page.wait_for_selector("#viewer option", state="attached")  # once the position is there
    assert page.locator("#viewer").input_value() == "1"
    page.click("[aria-label=Forward]")
    page.wait_for_selector("[aria-label*='face down']")


def test_replay_is_analysed_at_any_position(visit, record, tmp_path):
    pytest.importorskip("onnxruntime")
    page = open_record(visit(), record, tmp_path)
    page.click(".chances-box summary")
    page.get_by_role("button", name="Win chances").click()
    page.wait_for_selector(".chart")
    shares = page.locator(".legend .number").all_inner_texts()
    assert sum(int(share.removesuffix(" %")) for share in shares) in (99, 100, 101)
    page.click("[aria-label=Forward]")
    page.click(".analysis summary")
    page.click("text=Analyse")
    page.wait_for_selector(".judged tbody tr")
    page.select_option(".analysis select", "mcts:sims=200")
    page.click("text=Analyse")
    page.wait_for_selector(".lines li", timeout=60_000)  # may have to compile the search first


def test_games_of_a_file_are_listed_with_their_ends(visit, record, tmp_path):
    file = tmp_path / "games.jsonl"
    file.write_text(f"{json.dumps(record)}\n{{}}\n{json.dumps(redact(record, 1))}\n")
    page = visit().open("#/replay")
    page.set_input_files("#file", file)
    games = page.locator(".games li")
    games.first.wait_for()
    result = record["result"]
    seats = ", ".join(
        f"{name} ({points} point{'' if points == 1 else 's'})"
        for name, points in zip(record["seats"], result["points"], strict=True)
    )
    words = f"{seats} · {result['rounds']} rounds · target"
    assert games.locator("span").all_inner_texts() == [words, "no record", words]
    page.click("text=Open 3")
    page.wait_for_selector(".steps")
    page.wait_for_selector("#viewer option", state="attached")  # once the position is there
    assert page.locator("#viewer").input_value() == "1"


def test_file_without_a_record_is_refused_in_words(visit, tmp_path):
    visitor = visit()
    page = visitor.open("#/replay")
    file = tmp_path / "shopping.json"
    file.write_text('{"milk": 2}\n')
    page.set_input_files("#file", file)
    page.wait_for_selector("[role=alert]:not([hidden])")
    words = page.locator("[role=alert]:not([hidden])").first.inner_text()
    assert words == "record: version None, this reads 1"
    visitor.complaints.clear()  # the browser reports the refusal


# For everybody.


def test_turn_is_played_with_the_keyboard_alone(visit, table_server):
    path, secrets = table_server.open(None, None)
    page = visit().sit(path, 0, secrets[0])

    def tab_to(name):
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.dataset.key") == name:
                return
        raise AssertionError(f"Tab does not come to {name}")

    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # skips to the table
    assert page.evaluate("document.activeElement.id") == "main"
    tab_to("card 3-1")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.dataset.key") == "confirm"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.dataset.key") == "card 3-1"
    for color in "WUG":
        tab_to(f"pile {color}")
        page.keyboard.press("Space")
        assert color in page.locator("[aria-label=Chosen]").inner_text()
    assert page.evaluate("document.activeElement.dataset.key") == "confirm"
    page.keyboard.press("Enter")
    page.wait_for_selector("text=person 1 is to move")
    assert table_server.get(path)["history"][0]["move"] == "take W U G"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_have_contrast_in_light_and_dark(visit, table_server, scheme):
    path, secrets = table_server.open(None, None, "greedy", "greedy")
    make_moves(table_server, path, secrets, ["reserve deck 1"])
    visitor = visit(color_scheme=scheme)
    page = visitor.sit(path, 1, secrets[1])
    page.click(key("pile W"))
    assert page.evaluate(FAINT_WORDS) == []
    visitor.open("#/")
    page.wait_for_selector("form")
    assert page.evaluate(FAINT_WORDS) == []


FAINT_WORDS = """() => {
  const channels = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = (color) => {
    const [r, g, b] = channels(color).slice(0, 3).map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if ((channels(color)[3] ?? 1) === 1) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const faint = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode.parentElement;
    const isLeftOut = node.closest("svg, :disabled, .hidden, noscript") || !node.checkVisibility();
    if (isLeftOut || !texts.currentNode.data.trim()) continue;
    const [a, b] = [light(getComputedStyle(node).color), light(ground(node))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) faint.push(`${texts.currentNode.data.trim()}: ${contrast.toFixed(2)}`);
  }
  return faint;
}"""
"""Texts whose contrast with what is behind them is below 4.5 to 1, the AA level of WCAG."""


def test_every_control_has_a_name(visit, table_server, record, tmp_path):
    path, secrets = table_server.open(None, "greedy")
    visitor = visit()
    visitor.open("#/")
    visitor.page.wait_for_selector("form")
    assert visitor.page.evaluate(NAMELESS) == []
    page = open_record(visitor, record, tmp_path)
    assert page.evaluate(NAMELESS) == []
    visitor.sit(path, 0, secrets[0])
    assert page.evaluate(NAMELESS) == []


NAMELESS = """() => [...document.querySelectorAll("button, input, select, a, summary")]
  .filter((node) => !(node.ariaLabel || node.textContent.trim() || node.labels?.length))
  .map((node) => node.outerHTML)"""
"""Controls of which a screen reader could say nothing."""


@pytest.mark.parametrize("width", [320, 390, 820, 1280])
def test_nothing_scrolls_sideways_at_any_width(visit, table_server, record, tmp_path, width):
    path, secrets = table_server.open(None, "greedy", None, "random")
    visitor = visit(viewport={"width": width, "height": 844})
    page = visitor.open("#/")
    page.wait_for_selector("form")
    page.click("text=More options")
    assert scroll_width(page) <= 0
    page = open_record(visitor, record, tmp_path)
    assert scroll_width(page) <= 0
    visitor.sit(path, 0, secrets[0])
    page.click(key("card 2-1"))
    page.click(".tools summary")
    page.click(".all-moves summary")
    assert scroll_width(page) <= 0
    assert page.locator(key("confirm")).is_visible()
