"""Logins and sessions of the web page: where they lead, and what a cookie opens."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

from claimq.blocking import BlockingQueue
from testkit.web.page_user import PageUser


def test_pages_need_a_login_and_go_on_to_the_page_that_was_asked_for(
    page_with_actions: Any, token: str
) -> None:
    for path in ("/", "/queues/media/item?id=waits", "/queues/nothing", "/other"):
        answer = page_with_actions.get(path)
        assert answer.status == 303
        assert answer.headers["location"] == f"/login?{urlencode({'next': path})}"
        assert "media" not in answer.text
    login = page_with_actions.get("/login?next=%2Fqueues%2Fmedia%3Fa%3Db").text
    assert '<input type="hidden" name="next" value="/queues/media?a=b">' in login
    assert token not in login


def test_a_login_leads_to_no_other_site(page_with_actions: Any, token: str) -> None:
    for elsewhere in ("//evil.example/", "/\\evil.example", "https://evil.example", "", "/a\r\nb: c"):
        answer = PageUser(page_with_actions, "").post("/login", {"token": token, "next": elsewhere})
        assert answer.status == 303
        assert re.fullmatch(r"/s/[\w-]{32}/", answer.headers["location"]), elsewhere


def test_an_unknown_token_begins_no_session(page_with_actions: Any, token: str) -> None:
    for wrong in ("", "x", "0" * 32, "é", token[:-1], f"{token}x"):
        answer = PageUser(page_with_actions, "").post("/login", {"token": wrong})
        assert answer.status == 403, wrong
        assert answer.headers.get("set-cookie") is None
        assert "This token is not known." in answer.text


def test_the_cookie_is_kept_from_scripts_and_other_sites(page_with_actions: Any, token: str) -> None:
    answer = PageUser(page_with_actions, "").post("/login", {"token": token})
    cookie = answer.headers["set-cookie"].lower()
    assert "; httponly" in cookie
    assert "; samesite=lax" in cookie
    assert token.lower() not in cookie


def test_a_strange_cookie_of_another_program_does_not_hide_the_session(user: PageUser) -> None:
    user.cookie = f'{{"a"}}=1; {user.cookie}; b'
    assert "Pause</button>" in user.get("/queues/media")


def test_a_cookie_is_for_the_path_of_its_session_only(page_with_actions: Any, user: PageUser) -> None:
    other = PageUser(page_with_actions, "")
    other.cookie = user.cookie
    for path in ("/queues/media", f"/s/{'x' * 32}/queues/media"):
        answer = other.send("GET", path, None, {})
        assert answer.status == 303
        assert answer.headers["location"].startswith("/login?next=%2Fqueues%2Fmedia")
    other.base, other.form_token = "", user.form_token
    assert other.post("/queues/media", {"action": "pause"}).status == 403


def test_another_page_of_this_machine_does_not_know_the_session(
    start_page: Any, user: PageUser, queue: BlockingQueue
) -> None:
    other = PageUser(start_page("--actions"), "")
    other.cookie, other.base, other.form_token = user.cookie, user.base, user.form_token
    assert other.send("GET", "/queues/media", None, {}).status == 303
    assert other.post("/queues/media", {"action": "pause"}).status == 403
    assert not queue.snapshot().paused


def test_a_logout_ends_the_session(user: PageUser) -> None:
    address = user.post("/logout", {}).headers["location"]
    assert address == f"/login?ended={user.base.removeprefix('/s/')}"
    assert user.send("GET", "/queues/media", None, {}).status == 303
    assert user.post("/queues/media", {"action": "pause"}).status == 403


def test_the_api_below_the_path_of_a_session_needs_a_token_too(user: PageUser, queue: BlockingQueue) -> None:
    for path in ("/api/v1/queues", "/api/v1/queues/media/items"):
        assert user.send("GET", path, None, {}).status == 401
    assert user.post("/api/v1/queues/media", {"action": "pause"}).status == 401
    assert not queue.snapshot().paused


def test_a_login_leads_to_no_other_site_from_any_path(page_with_actions: Any, token: str) -> None:
    for path in ("//evil.example/", "/\\evil.example", "/s//evil.example", f"/s/{'x' * 32}//evil.example/"):
        leads = page_with_actions.get(path).headers["location"]
        login = page_with_actions.get(leads).text
        found = re.search(r'name="next" value="([^"]*)"', login)
        assert found
        answer = PageUser(page_with_actions, "").post("/login", {"token": token, "next": found[1]})
        assert re.match(r"/s/[\w-]{32}/", answer.headers["location"]), path
