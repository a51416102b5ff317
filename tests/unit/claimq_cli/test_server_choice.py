"""Which settings are sent to which server."""

import pytest

from claimq_cli.server_choice import settings_for, settings_for_other


def test_another_server_never_gets_the_password_of_the_queues_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CLAIMQ_REDIS_USERNAME", "user")
    monkeypatch.setenv("CLAIMQ_REDIS_PASSWORD", "secret")
    monkeypatch.setenv("CLAIMQ_REDIS_CA_FILE", "ca.pem")
    other = settings_for_other("redis://old:6379/0")
    assert (other.username, other.password, other.ca_file) == (None, None, "ca.pem")
    assert settings_for("redis://new:6379/0").password == "secret"
