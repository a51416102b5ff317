"""Items in files: JSON lines and CSV, as `claimq export` writes them and `claimq import` reads them."""

from __future__ import annotations

import base64
import binascii
import csv
import io
import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, cast

from claimq.arguments import instant
from claimq.codec import check_name, payload_bytes
from claimq.errors import InvalidName
from claimq.item_options import ITEM_OPTIONS, Form, ItemOption, KeptOptions
from claimq.model import NewItem
from claimq_admin.instants import parse_instant
from claimq_admin.item_files.json_text import Value, fields_of

_PAYLOAD_FIELDS = ("payload", "payload_base64")
_OWN_COLUMNS = ("id", "client", "at")
_NO_END = "a quoted field begins in this record and does not end"
_QUOTED = re.compile(b'"[^"]*"')
_LONGEST_RECORD = 64 * 1024 * 1024
csv.field_size_limit(_LONGEST_RECORD)


def item_of_json(line: bytes) -> NewItem:
    """The item that a JSON line describes, see :func:`json_fields`. ValueError with what is wrong."""
    try:
        fields = json_fields(line.decode())
    except UnicodeDecodeError:
        fields = None
    if fields is None:
        raise ValueError(
            "not a JSON object with a payload; lines that are payloads themselves: `claimq enqueue --lines`"
        )
    return item_of_fields(fields)


def json_fields(text: str) -> dict[str, Any] | None:
    """The fields of a JSON object that describes an item; None if the text is no object. ValueError for a name that
    comes twice.

    An object or a list as payload is bytes as it is written; so are numbers as id and client, as text.
    """
    values = fields_of(text, raw_field="payload")
    if values is None:
        return None
    fields = {name: field.value for name, field in values.items()}
    for name in ("id", "client"):
        if isinstance(fields.get(name), int | float) and not isinstance(fields[name], bool):
            fields[name] = values[name].text
    if "payload" in values:
        fields["payload"] = _payload(values["payload"])
    return fields


def _payload(field: Value) -> object:
    if isinstance(field.value, dict | list):
        return field.text.encode()
    # Numbers are no payloads; the decoder has left them as text.
    return field.value if field.text.startswith('"') or field.value is None else json.loads(field.text)


def item_of_fields(fields: Mapping[str, Any]) -> NewItem:
    """The item with these fields of a JSON object; others are ignored. ValueError with what is wrong."""
    if sum(fields.get(name) is not None for name in _PAYLOAD_FIELDS) != 1:
        raise ValueError("it needs one of the fields payload (text, an object or a list) and payload_base64")
    return _item(fields, fields.get("payload"), fields)


def _item(fields: Mapping[str, Any], payload: object, options: Mapping[str, Any]) -> NewItem:
    if payload is None:
        payload = _decoded(fields["payload_base64"])
    try:
        stored = payload_bytes(payload)
    except TypeError as error:
        raise ValueError(str(error)) from error
    return NewItem(
        stored,
        id=_name("id", fields.get("id")),
        client=_name("client", fields.get("client")),
        at=_instant("at", fields.get("at")),
        **_options(options),
    )


def _options(fields: Mapping[str, Any]) -> KeptOptions:
    """The options that an item keeps. ValueError with what is wrong."""
    options: dict[str, Any] = {}
    for option in ITEM_OPTIONS:
        raw = fields.get(option.name)
        if raw is None or raw == "":
            continue
        try:
            valid = option.check(_value(option, raw))
        except TypeError as error:
            raise ValueError(str(error)) from None
        if valid is not None:
            options[option.name] = valid
    return cast("KeptOptions", options)


def _value(option: ItemOption, raw: object) -> object:
    """The value of an option from JSON or CSV, whose form is right but which is not checked otherwise."""
    match option.form:
        case Form.INSTANT:
            return _instant(option.name, raw)
        case Form.COUNT:
            text = str(raw)
            is_short = text.isascii() and text.isdigit() and len(text) <= len(str(option.most))
            if not is_short or not option.least <= int(text) <= option.most:
                raise ValueError(
                    f"{option.name} is not a whole number from {option.least} to {option.most:,}"
                )
            return int(text)
        case _:
            return raw


def _decoded(text: object) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except binascii.Error:
        raise ValueError("payload_base64 is not base64") from None


def _name(kind: str, raw: object) -> str | None:
    if raw is None or raw == "":
        return None
    if isinstance(raw, bool) or not isinstance(raw, str | int | float):
        raise ValueError(f"{kind} is {type(raw).__name__}; give text")
    try:
        return check_name(kind, str(raw))
    except InvalidName as error:
        raise ValueError(str(error)) from None


def _instant(name: str, raw: object) -> float | None:
    if raw is None or raw == "":
        return None
    try:
        if isinstance(raw, bool):
            raise ValueError
        seconds = parse_instant(raw)
    except ValueError:
        raise ValueError(f"{name} is not an instant; write Unix seconds or ISO 8601") from None
    return instant(name, seconds)


class CsvFile:
    """Reads a CSV file line by line. The first record names the columns. They are separated by commas, or by semicolons
    or tabs if the first record has such and no comma."""

    def __init__(self) -> None:
        self._separator = ","
        self._columns: list[str] | None = None
        self._parts: list[bytes] = []
        self._size = self._first = self._quotes = 0

    def record(self, number: int, line: bytes) -> tuple[int, bytes] | None:
        """The record that ends with this line, with the number of its first line. None for the record of the columns
        and while a quoted field continues. Raises ValueError for a record that is too long."""
        if not self._parts:
            self._first = number
        self._parts.append(line)
        self._size += len(line)
        self._quotes += line.count(b'"')
        if self._quotes % 2:
            if self._size > _LONGEST_RECORD:
                raise ValueError(f"line {self._first}: {_NO_END}")
            return None
        return self.rest()

    def rest(self) -> tuple[int, bytes] | None:
        """The record that has begun, as :meth:`record` returns it. At the end of the file a quoted field in it may not
        have ended; then :meth:`item` refuses the record."""
        whole = b"\n".join(self._parts)
        self._parts, self._size, self._quotes = [], 0, 0
        if whole in (b"", b"\r"):
            return None
        if self._columns is None:
            header = whole.removeprefix(b"\xef\xbb\xbf")
            self._separator = _separator_of(header)
            self._columns = _columns(self._first, header, self._separator)
            return None
        return self._first, whole

    def item(self, record: bytes) -> NewItem:
        """The item of a record. The column headers has a JSON object; the column escaped names those with an apostrophe
        in front, which was put before what looks like a formula. Without a column payload or payload_base64, the
        payload is a JSON object of all columns but id, client and at. ValueError with what is wrong."""
        columns, cells = self._columns or [], _row(record, self._separator)
        if len(cells) != len(columns):
            raise ValueError(f"number of fields: {len(cells)}, but the first line has {len(columns)}")
        fields = dict(zip(columns, cells, strict=True))
        if "payload" in fields or "payload_base64" in fields:
            for name in fields.get("escaped", "").split(" "):
                if name in fields:
                    fields[name] = fields[name].removeprefix("'")
        if fields.get("payload_base64") or "payload" in fields:
            payload = None if fields.get("payload_base64") else fields["payload"]
            return _item(fields, payload, {**fields, "headers": _json_of(fields.get("headers"))})
        return _item(fields, {name: cell for name, cell in fields.items() if name not in _OWN_COLUMNS}, {})


def _json_of(cell: str | None) -> object:
    """The headers in a cell, which are a JSON object; None for an empty one."""
    if not cell:
        return None
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        raise ValueError("headers is not a JSON object") from None


def _separator_of(header: bytes) -> str:
    """The separator of a CSV file with this first record."""
    plain = _QUOTED.sub(b"", header)
    return "," if b"," in plain else ";" if b";" in plain else "\t" if b"\t" in plain else ","


def _columns(line: int, record: bytes, separator: str) -> list[str]:
    try:
        names = _row(record, separator)
    except ValueError as error:
        raise ValueError(f"line {line}: {error}") from error
    if odd := [name for name in names if not set(name).isdisjoint(";\t\0")]:
        raise ValueError(
            f"line {line}: the column {odd[0][:40]!r} has a semicolon, a tab or a NUL in its name; separate all "
            "columns by commas, and save the file as UTF-8"
        )
    if twice := [name for name, number in Counter(names).items() if number > 1]:
        raise ValueError(f"line {line}: two columns have the name {twice[0]!r}; give each its own")
    return names


def _row(record: bytes, separator: str) -> list[str]:
    try:
        text = io.StringIO(record.decode(), newline="")
        first, *more_records = csv.reader(text, strict=True, delimiter=separator)
    except UnicodeDecodeError:
        raise ValueError("not UTF-8; put the payload into a column payload_base64") from None
    except csv.Error as error:
        raise ValueError(_NO_END if "unexpected end" in str(error) else f"not CSV ({error})") from None
    if more_records:
        raise ValueError(
            "several records in one: quote a field with a quotation mark, and write the mark twice; end lines with \\n"
        )
    return first
