"""A user of the web page of a test."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

FORM = "application/x-www-form-urlencoded"


class PageUser:
    """A browser of a user, without a browser."""

    def __init__(self, page: Any, token: str) -> None:
        self.page = page
        self.host: str = urlsplit(str(page.url)).netloc
        self.cookie = ""
        self.base = ""
        self.form_token = ""
        if token:
            answer = self.post("/login", {"token": token, "next": "/queues/media/audit"})
            assert answer.status == 303
            found = re.match(r"([^;]+);.*[Pp]ath=(/s/[^;]+)", answer.headers["set-cookie"])
            assert found
            self.cookie, self.base = found[1], found[2]
            found = re.search(r'name="form_token" value="([^"]+)"', self.get("/queues/media"))
            assert found
            self.form_token = found[1]

    def send(self, method: str, path: str, body: str | bytes | None, headers: Mapping[str, str]) -> Any:
        cookie = {"Cookie": self.cookie} if self.cookie else {}
        path = path if path.startswith("/s/") else self.base + path
        return self.page.get(path, method=method, body=body, headers={**cookie, **headers})

    def get(self, path: str) -> str:
        """The text of a page, which must be there."""
        answer = self.send("GET", path, None, {})
        assert answer.status == 200, answer.text
        text: str = answer.text
        return text

    def post(self, path: str, form: Mapping[str, str], headers: Mapping[str, str] | None = None) -> Any:
        fields = {"form_token": self.form_token} | dict(form)
        return self.send("POST", path, urlencode(fields), {"Content-Type": FORM, **(headers or {})})

    def act(self, path: str, **form: str) -> str:
        """Sends a form as a page does; returns the page that it leads to."""
        answer = self.post(path, form)
        assert answer.status == 303, answer.text
        return self.get(answer.headers["location"])
