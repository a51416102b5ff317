"""The web page in a real browser: scripts of outsiders, keyboard, phones, accessibility, live updates."""

import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import urlencode, urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Dialog, Page, Response

from testkit.servers.patient import open_blocking_queue
from testkit.servers.server import Server
from testkit.waiting import eventually_sync
from testkit.web.browser import PATIENCE_MS, unfit

ITEM_ID = '"><svg/onload=window.hit=1>'
ITEMS = [f"/queues/media/item?{urlencode({'id': one})}" for one in (ITEM_ID, "waits", "bytes", "fail1")]
PATHS = [
    "/",
    "/queues/media",
    *(f"/queues/media/{state}" for state in ("waiting", "busy", "delayed", "failed", "audit")),
    *ITEMS,
    "/queues/nothing",
]
MOST_BYTES = 250_000
LOOKS = [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 360)]
WATCH = """
window.violations = [];
addEventListener("securitypolicyviolation", event => window.violations.push(event.violatedDirective));
"""


def opened(browser: Browser, *, scheme: str = "light", width: int = 1280) -> BrowserContext:
    """A new profile of the browser that notes violations of the policy."""
    dark = scheme == "dark"
    context = browser.new_context(
        color_scheme="dark" if dark else "light", viewport={"width": width, "height": 800}
    )
    context.set_default_timeout(PATIENCE_MS)
    context.add_init_script(WATCH)
    return context


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    """A tab of a wide, light browser."""
    context = opened(browser)
    yield context.new_page()
    context.close()


@pytest.fixture
def address(page_of_web: Any, media: str) -> str:
    """The address of a page that shows `media`, once its plots have begun."""
    eventually_sync(lambda: "<figure>" in page_of_web.get("/queues/media").text)
    return str(page_of_web.url).rstrip("/")


def enqueue(server: Server, item_id: str, queue: str = "media") -> None:
    with open_blocking_queue(server.url, queue) as opened:
        opened.enqueue("x", id=item_id)


def test_no_text_of_an_outsider_runs_as_a_script(tab: Page, address: str) -> None:
    dialogs: list[str] = []

    def note(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    tab.on("dialog", note)
    query = urlencode(
        {"text": ITEM_ID, "reason": ITEM_ID, "client": "<b>", "id": "<script>window.hit=1</script>"}
    )
    for path in [*PATHS, f"/?{query}", f"/queues/media/failed?{query}", f"/queues/media/item?{query}"]:
        tab.goto(address + path)
        assert tab.evaluate("[window.hit, window.violations]") == [None, []], path
        assert tab.locator("main script, main img, main [onload], main svg[onload]").count() == 0
    assert dialogs == []


def test_an_update_runs_no_script_either(tab: Page, address: str, valkey: Server) -> None:
    tab.goto(f"{address}/queues/media/waiting")
    enqueue(valkey, "<img/src=x/onerror=window.hit=1>")
    tab.get_by_role("link", name="<img/src=x/onerror=window.hit=1>").wait_for()
    assert tab.evaluate("[window.hit, window.violations]") == [None, []]


def test_the_policy_stops_a_script_that_gets_into_a_page(tab: Page, address: str) -> None:
    tab.goto(address)
    tab.evaluate("document.querySelector('main').innerHTML = '<img src=/x onerror=window.hit=1>'")
    eventually_sync(lambda: tab.evaluate("window.violations") == ["script-src-attr"])
    assert tab.evaluate("window.hit") is None


def test_a_new_item_appears_without_a_reload_and_the_focus_stays(
    tab: Page, address: str, valkey: Server
) -> None:
    tab.goto(f"{address}/queues/media/waiting")
    tab.evaluate("window.isTheSame = true")
    tab.get_by_role("link", name="waits").focus()
    enqueue(valkey, "fresh")
    tab.get_by_role("link", name="fresh").wait_for()
    assert tab.evaluate("[window.isTheSame, document.activeElement.textContent]") == [True, "waits"]


def test_paused_updates_stay_paused_until_the_button_is_pressed_again(
    tab: Page, address: str, valkey: Server
) -> None:
    tab.goto(f"{address}/queues/media/waiting")
    button = tab.get_by_role("button", name="Pause updates")
    button.press("Enter")
    assert button.get_attribute("aria-pressed") == "true"
    enqueue(valkey, "fresh")
    assert tab.get_by_role("link", name="fresh").count() == 0
    button.press("Space")
    tab.get_by_role("link", name="fresh").wait_for()


def test_a_page_without_its_server_says_so_and_recovers(
    browser: Browser, start_page: Any, start_server: Any
) -> None:
    server = start_server()
    enqueue(server, "one", "mail")
    page = start_page("mail", url=server.url)
    context = opened(browser)
    tab = context.new_page()
    tab.goto(page.url)
    server.kill9()
    notice = tab.get_by_text("No update: claimq or its server does not answer.")
    notice.wait_for()
    server.start()
    notice.wait_for(state="detached")
    enqueue(server, "two", "mail")
    tab.get_by_role("link", name="mail").wait_for()
    context.close()


def test_the_keyboard_reaches_a_queue_and_an_item(tab: Page, address: str) -> None:
    tab.goto(address)
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip to content"
    tab.keyboard.press("Enter")
    _tab_until(tab, "media")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/queues/media")
    _tab_until(tab, "Failed")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/queues/media/failed")
    _tab_until(tab, "fail2")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/item?id=fail2*")
    assert tab.get_by_role("heading", level=1).text_content() == "Item fail2"


def _tab_until(tab: Page, text: str) -> None:
    """Presses Tab until the element with this text has the focus, which must be visible."""
    for _ in range(60):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.textContent.trim()") == text:
            break
    else:
        raise AssertionError(f"the keyboard does not reach {text!r}")
    assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"


def test_json_unfolds_by_keyboard_and_stays_text(tab: Page, address: str) -> None:
    tab.goto(f"{address}/queues/media/item?id=fail1")
    name = tab.locator(".tree .name", has_text="deep")
    assert not name.is_visible()
    tab.locator("summary", has_text="1 field").press("Enter")
    name.wait_for()


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_each_page_is_accessible_and_fits_the_width(
    browser: Browser, address: str, scheme: str, width: int
) -> None:
    context = opened(browser, scheme=scheme, width=width)
    tab = context.new_page()
    for path in PATHS:
        tab.goto(address + path)
        assert unfit(tab) == [], path
    context.close()


def test_the_list_of_queues_shows_ages_and_notes_on_a_phone(
    browser: Browser, address: str, valkey: Server
) -> None:
    with open_blocking_queue(valkey.url, "tenant.thumbnails-of-uploaded-pictures") as queue:
        queue.enqueue("x")
        queue.pause()
        queue.add_to_index()
    context = opened(browser, width=390)
    tab = context.new_page()
    tab.goto(address + "/")
    note = tab.locator("#queues .tag", has_text="paused")
    note.wait_for()
    note_box = note.bounding_box()
    assert note_box is not None
    assert note_box["height"] < 30, "the word is broken"
    shown = tab.locator("#queues thead th:visible")
    assert shown.all_inner_texts() == ["queue", "main", "failed", "oldest", "notes"]
    box = shown.last.bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 390
    assert {"main", "failed"} & _broken_words(tab) == set()
    context.close()


def test_messages_are_whole_on_a_phone_and_no_word_is_broken(
    browser: Browser, address: str, valkey: Server
) -> None:
    with open_blocking_queue(valkey.url, "media", worker="w") as queue:
        queue.enqueue("x", id="order-1234567890", priority="high")
        queue.fail(queue.claim(1), "the customer has no address: complete the form", permanent=True)
    context = opened(browser, width=390)
    tab = context.new_page()
    tab.goto(f"{address}/queues/media/failed")
    box = tab.locator("td.text", has_text="complete the form").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 390
    assert _broken_words(tab) == set()
    context.close()


def _broken_words(tab: Page) -> set[str]:
    """The headings of columns and rows of one word that are shown on several lines."""
    headings = tab.locator("th:visible").all()
    texts = {heading.inner_text(): heading.bounding_box() for heading in headings}
    return {text for text, box in texts.items() if box and " " not in text and box["height"] > 45}


def test_a_page_with_all_its_files_is_small_and_comes_from_here(tab: Page, address: str) -> None:
    sizes: dict[str, int] = {}

    def note(response: Response) -> None:
        sizes[response.url] = int(response.headers.get("content-length", "0"))

    tab.on("response", note)
    for path in PATHS:
        tab.goto(address + path, wait_until="networkidle")
    assert all(url.startswith(address) for url in sizes)
    assert any(url.endswith(".css") for url in sizes)
    assert 0 < sum(sizes.values()) <= MOST_BYTES
    paint = tab.evaluate("performance.getEntriesByType('paint').map(one => one.startTime)")
    print("first paint of the last page, ms:", json.dumps(paint), "bytes of all pages:", sum(sizes.values()))


@pytest.fixture
def acting(browser: Browser, start_page: Any, media: str) -> Iterator[Page]:
    """A tab of a user who has logged in to a page that allows changes."""
    page = start_page("--actions")
    token = eventually_sync(lambda: re.search(r"log in with the token (\S+)\n", page.log.read_text()))
    context = opened(browser)
    tab = context.new_page()
    tab.goto(f"{page.url}queues/media")
    tab.get_by_label("Token").fill(token[1] if token else "")
    tab.get_by_label("Token").press("Enter")
    tab.wait_for_url("**/queues/media")
    yield tab
    context.close()


def test_a_user_logs_in_changes_an_item_and_logs_out(acting: Page, valkey: Server) -> None:
    acting.get_by_role("link", name="Waiting").click()
    acting.get_by_role("link", name="waits").click()
    acting.get_by_label("because").fill("withdrawn")
    acting.get_by_role("button", name="Cancel").click()
    acting.get_by_text("waits cancelled; it is in failed now").wait_for()
    acting.reload()
    assert acting.get_by_text("waits cancelled").count() == 0
    assert acting.get_by_role("button", name="Remove permanently").is_hidden()
    acting.locator("summary", has_text="Remove").click()
    acting.get_by_role("button", name="Remove permanently").click()
    acting.get_by_text("waits removed").wait_for()
    acting.get_by_role("link", name="Audit").click()
    with open_blocking_queue(valkey.url, "media") as queue:
        assert [one.action for one in queue.audit_log()] == ["remove", "cancel"]
    acting.get_by_role("cell", name="remove", exact=True).wait_for()
    acting.get_by_role("button", name="Log out").click()
    acting.get_by_label("Token").wait_for()


def test_a_page_whose_session_has_ended_says_so_and_leads_to_the_login(acting: Page) -> None:
    acting.context.clear_cookies()
    acting.get_by_text("Your login has ended. Log in again.").wait_for()
    acting.get_by_role("link", name="Log in again.").click()
    acting.wait_for_url("**/login?next=%2Fqueues%2Fmedia&ended=*")
    acting.get_by_label("Token").wait_for()


def test_a_link_leads_to_the_session_that_the_browser_has(acting: Page) -> None:
    base = acting.url.removesuffix("/queues/media")
    link = acting.url.replace(urlsplit(base).path, "")
    tab = acting.context.new_page()
    tab.goto(f"{link}/failed")
    tab.wait_for_url(f"{base}/queues/media/failed")
    tab.goto(f"{link.removesuffix('/queues/media')}/s/{'x' * 32}/queues/media/busy?a=b")
    tab.wait_for_url(f"{base}/queues/media/busy?a=b")
    acting.get_by_role("button", name="Log out").click()
    acting.get_by_label("Token").wait_for()
    tab.goto(link)
    tab.get_by_label("Token").wait_for()
    tab.reload()
    tab.get_by_label("Token").wait_for()


class Neighbour(BaseHTTPRequestHandler):
    """A program of another user on another port: notes each request with its cookies."""

    requests: ClassVar[list[tuple[str, str]]] = []
    heads: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.requests.append((self.path, self.headers.get("Cookie", "")))
        self.heads.append(f"{self.path} {self.headers}")
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Set-Cookie", "neighbour=1; Path=/")
        self.end_headers()
        self.wfile.write(b"<img src=/picture>")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class has it
        pass


@pytest.fixture
def neighbour() -> Iterator[str]:
    """The address of such a program."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Neighbour)
    thread = Thread(target=server.serve_forever)
    thread.start()
    Neighbour.requests.clear()
    Neighbour.heads.clear()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_program_on_another_port_gets_no_cookie_of_a_session(acting: Page, neighbour: str) -> None:
    base = acting.url.removesuffix("/queues/media")
    tab = acting.context.new_page()
    for _ in range(2):
        tab.goto(neighbour, wait_until="networkidle")
    tab.evaluate("fetch('/fetched', {credentials: 'include'})")
    acting.evaluate(f"location.assign('{neighbour}/followed')")
    acting.wait_for_url("**/followed", wait_until="networkidle")
    paths = [path for path, _ in Neighbour.requests]
    assert {"/", "/picture", "/fetched", "/followed"} <= {*paths}
    assert {cookies for _, cookies in Neighbour.requests[3:]} == {"neighbour=1"}
    assert [head for head in Neighbour.heads if "claimq_session" in head or "/s/" in head] == []
    assert tab.evaluate("[document.cookie, localStorage.length]") == ["neighbour=1", 0]
    tab.goto(f"{base}/queues/media")
    tab.get_by_role("button", name="Pause", exact=True).wait_for()


def test_two_pages_on_one_machine_keep_their_sessions(acting: Page, start_page: Any) -> None:
    page = start_page("--actions")
    token = eventually_sync(lambda: re.search(r"log in with the token (\S+)\n", page.log.read_text()))
    tab = acting.context.new_page()
    tab.goto(f"{page.url}queues/media")
    tab.get_by_label("Token").fill(token[1] if token else "")
    tab.get_by_label("Token").press("Enter")
    tab.get_by_role("button", name="Pause", exact=True).wait_for()  # a reload fails while the log-in goes on
    for one in (tab, acting):
        one.reload()
        one.get_by_role("button", name="Pause", exact=True).wait_for()


def test_failed_items_are_counted_changed_and_followed(acting: Page) -> None:
    acting.get_by_role("link", name="Failed").click()
    acting.get_by_label("Error contains").fill("byte 1")
    acting.get_by_role("button", name="Count").click()
    acting.get_by_text("of 3 failed items pass").wait_for()
    acting.get_by_label("Items per second").first.fill("50")
    acting.get_by_role("button", name="Requeue all of them").click()
    acting.locator("dd", has_text="done").wait_for()


def test_the_pages_of_changes_are_accessible_and_run_no_script(acting: Page, valkey: Server) -> None:
    with open_blocking_queue(valkey.url, "media") as queue:
        queue.pause(client="c" * 128, reason="r" * 300)
    address = acting.url.removesuffix("/queues/media")
    query = urlencode({"error": "<script>window.hit=1</script>", "client": ITEM_ID})
    for scheme, width in (("light", 1280), ("dark", 360)):
        acting.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        acting.set_viewport_size({"width": width, "height": 800})
        for path in ("/login", *PATHS, f"/queues/media/selected?{query}", "/queues/media/selected"):
            acting.goto(address + path)
            assert unfit(acting) == [], path
            assert acting.evaluate("[window.hit, window.violations]") == [None, []], path
