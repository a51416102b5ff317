"""A user of the web page."""

import http.client
import re
from collections.abc import Mapping
from urllib.parse import urlencode, urlsplit

from testkit.waiting import PATIENCE


class WebUser:
    """A browser of a user, without a browser. Through a proxy it sends headers instead of a cookie."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self.host = urlsplit(url).netloc
        self.headers = dict(headers or {})
        self.base = ""

    def send(self, method: str, path: str, body: str | None = None) -> tuple[int, str, str]:
        """Status, text, and where the answer leads to."""
        connection = http.client.HTTPConnection(self.host, timeout=PATIENCE)
        headers = {**self.headers, "Origin": f"http://{self.host}"}
        if body is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        try:
            path = path if path.startswith("/s/") else self.base + path
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            cookie = re.match(r"([^;]+);.*[Pp]ath=(/s/[^;]+)", response.getheader("set-cookie") or "")
            if cookie:
                self.headers["Cookie"], self.base = cookie[1], cookie[2]
            return response.status, response.read().decode(), response.getheader("location") or ""
        finally:
            connection.close()

    def get(self, path: str = "/") -> tuple[int, str]:
        """Status and text of a page."""
        return self.send("GET", path)[:2]

    def log_in(self, token: str) -> int:
        return self.send("POST", "/login", urlencode({"token": token, "next": "/"}))[0]

    def act(self, path: str, **form: str) -> tuple[int, str]:
        """Sends a form as a page does; the page that it leads to, or the refusal."""
        _, page, _ = self.send("GET", "/")
        found = re.search(r'name="form_token" value="([^"]+)"', page)
        fields = {"form_token": found[1] if found else "", **form}
        status, text, location = self.send("POST", path, urlencode(fields))
        return self.get(location) if status == 303 else (status, text)
