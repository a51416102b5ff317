"""What an administrator declares of appendfsync, where the server does not show it."""

import pytest

from claimq.internals.fsync_setting import fsync_warnings, with_declared, with_refused
from claimq.model import ServerReport, ServerWarning

OTHER = ServerWarning("NoAppendOnly", "set it")


def report(value: str | None) -> ServerReport:
    return ServerReport("valkey", "9.1.2", "standalone", (OTHER, *fsync_warnings(value)), value)


@pytest.mark.parametrize(
    ("declared", "codes"),
    [
        (None, ["NoAppendOnly", "SettingsHidden"]),
        ("always", ["NoAppendOnly"]),
        ("everysec", ["NoAppendOnly", "FsyncNotAlways"]),
        ("no", ["NoAppendOnly", "FsyncNotAlways"]),
    ],
)
def test_a_declared_value_stands_for_one_that_is_hidden(declared: str | None, codes: list[str]) -> None:
    found = with_declared(report(None), declared)
    assert [one.code for one in found.warnings] == codes
    assert found.appendfsync == declared


def test_a_declaration_that_the_server_contradicts_is_a_warning() -> None:
    found = with_declared(report("everysec"), "always")
    assert found.appendfsync == "everysec"
    assert [one.code for one in found.warnings] == ["NoAppendOnly", "FsyncNotAlways", "DeclarationWrong"]
    assert "appendfsync is everysec and spec.redis.appendfsync declares always" in found.warnings[-1].message


def test_a_right_declaration_changes_nothing() -> None:
    assert with_declared(report("always"), "always") == report("always")


def test_foreign_text_in_place_of_the_value_is_not_repeated() -> None:
    (warning,) = fsync_warnings("<script>")
    assert warning.message.startswith("appendfsync is of another value")
    assert "script" not in with_declared(report("<script>"), "always").warnings[-1].message


@pytest.mark.parametrize(
    ("flavour", "version", "is_refused"),
    [
        ("valkey", "9.1.2", True), ("valkey", "7.2.4", True), ("redis", "7.2.4", True), ("redis", "8.0.1", True),
        ("redis", "8.2.0", False), ("redis", "8.10.2", False), ("redis", "9.0", False),
    ],
)  # fmt: skip
def test_a_report_names_the_durability_that_the_server_refuses(
    flavour: str, version: str, is_refused: bool
) -> None:
    found = ServerReport(flavour, version, "standalone")
    codes = [one.code for one in with_refused(found, "fsynced", is_always=False).warnings]
    assert codes == (["FsyncedRefused"] if is_refused else [])
    assert with_refused(found, "fsynced", is_always=True) == found
    assert with_refused(found, "replicated", is_always=False) == found
