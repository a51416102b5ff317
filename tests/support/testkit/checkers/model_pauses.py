"""Pauses by hand and closings by apps, of a queue and of its clients, as plain Python."""

from dataclasses import dataclass
from math import inf

LONGEST_CLOSING_MS = 86_400_000


@dataclass(frozen=True)
class ModelPause:
    """Instants are ms. ``by_hand``: until when by hand (0: an app has made it); an app keeps it from then on."""

    until: float
    by_hand: float

    def seen(self, now: int) -> tuple[float | None, bool, float | None]:
        """As a snapshot has it: until when, whether by an app now, and from when on if that comes later."""
        closed_from = self.by_hand / 1000 if now < self.by_hand < self.until else None
        return None if self.until == inf else self.until / 1000, self.by_hand <= now, closed_from


class ModelPauses:
    """``client``: "" for the whole queue."""

    def __init__(self) -> None:
        """None."""
        self._pauses: dict[str, ModelPause] = {}

    def pause(self, now: int, seconds: int | None, client: str = "") -> None:
        """Until it is resumed, or for so many seconds."""
        until = inf if seconds is None else now + 1000 * seconds
        self._pauses[client] = ModelPause(until, until)

    def resume(self, client: str = "") -> None:
        """It also ends a closing."""
        self._pauses.pop(client, None)

    def close(self, now: int, milliseconds: int, client: str = "") -> None:
        """By an app: the latest end holds, and a pause by hand stays one."""
        until, before = now + min(milliseconds, LONGEST_CLOSING_MS), self._pauses.get(client)
        if until > max(now, before.until if before else 0):
            self._pauses[client] = ModelPause(until, before.by_hand if before and before.by_hand > now else 0)

    def is_paused(self, now: int, client: str = "") -> bool:
        """Whether nothing of it is claimed."""
        return client in self._pauses and self._pauses[client].until > now

    @property
    def has_clients(self) -> bool:
        """Whether a client is paused, or was until a time that may be over."""
        return any(self._pauses)

    def seen(self, now: int) -> dict[str, tuple[float | None, bool, float | None]]:
        """Those that hold."""
        return {client: pause.seen(now) for client, pause in self._pauses.items() if pause.until > now}
