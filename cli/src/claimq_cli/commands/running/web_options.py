"""The options of `claimq web` that say who may use the page."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from claimq_admin.errors import USAGE, CommandError
from claimq_cli.commands.options.option_types import with_options
from claimq_web.options import actions_option, proxy_options

if TYPE_CHECKING:
    from claimq_web.users.login import Logins, ProxyHeaders


@dataclass(frozen=True, slots=True)
class Users:
    """Who may open the page, and whether they may change items. ``proxy``: where the user's name comes from."""

    without_login: bool
    may_act: bool
    file: Path | None
    proxy: ProxyHeaders | None

    @property
    def are_checked(self) -> bool:
        """Whether a page of this machine's server is shown only to users who are known."""
        return self.may_act or self.file is not None or self.proxy is not None

    def logins(self) -> tuple[Logins | None, str | None]:
        """The logins of a page of one server, and a new token where one was made. None for a page without a login."""
        from claimq_web.users.login import Logins, by_tokens, of_local_user, read_users

        if self.file is not None:
            hint = "The token is in the file that claimq web --users names."
            return Logins(by_tokens(read_users(self.file)), hint=hint), None
        if self.proxy is not None:
            return Logins(by_tokens({}), hint=""), None
        if self.may_act:
            authenticate, token = of_local_user()
            return Logins(authenticate, hint="claimq web printed the token when it started."), token
        return None, None


_OPTIONS = (
    click.option(
        "--without-login",
        is_flag=True,
        help="Allow an address that other machines can reach. Everyone who reaches it can read all payloads.",
    ),
    click.option(
        "--users",
        "file",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Users who may log in: a file with a line NAME TOKEN for each, which only its owner can read.",
    ),
)


def users_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of :class:`Users`, which the command gets as ``users``."""

    @functools.wraps(command)
    def choose(
        *args: Any,
        without_login: bool,
        may_act: bool,
        file: Path | None,
        proxy: ProxyHeaders | None,
        **others: Any,
    ) -> Any:
        if without_login and (may_act or file is not None or proxy is not None):
            raise CommandError(
                "--without-login does not go with --actions, --users and --trust-proxy; leave it out", USAGE
            )
        if file is not None and proxy is not None:
            raise CommandError("--users does not go with --trust-proxy: choose one login", USAGE)
        return command(*args, users=Users(without_login, may_act, file, proxy), **others)

    return with_options(actions_option(proxy_options(choose)), _OPTIONS)
