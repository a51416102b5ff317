"""The part of lockstep that is about the policy, limits and pauses."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from datetime import timedelta
from typing import Any

from claimq import Limit
from claimq.policy import Policy
from testkit.checkers.lockstep_items import ItemsWorld


class PolicyWorld(ItemsWorld):
    """Changes what holds for the items of a queue, on the server and on the model."""

    @abstractmethod
    def repair(self, name: str) -> None:
        """A call has ended that also repairs."""

    def set_policy(self, name: str, policy: Policy) -> None:
        """The whole of it; read back too."""
        queue = self.queue(name)
        self.run(queue.set_policy(policy))
        assert self.run(queue.policy()) == policy
        self.models[name].policy = policy
        self.repair(name)

    def update_policy(self, name: str, field: str, value: object) -> None:
        """One field of it; the others stay."""
        queue, model = self.queue(name), self.models[name]
        change: Any = {field: value}
        self.run(queue.update_policy(**change))
        model.policy = replace(model.policy, **change)
        assert self.run(queue.policy()) == model.policy
        if field in ("suspended", "limits"):
            self.repair(name)

    def set_limit(self, name: str, limit: Limit, seconds: int | None) -> None:
        """For a time, or of the policy."""
        queue, model = self.queue(name), self.models[name]
        until = None if seconds is None else timedelta(seconds=seconds)
        self.run(queue.set_limit(limit, until=until))
        model.held_back.change_limit(model.now, limit, seconds)
        if seconds is None:
            limits = {one.name: one for one in model.policy.limits} | {limit.name: limit}
            model.policy = replace(model.policy, limits=tuple(limits.values()))
        assert self.run(queue.policy()) == model.policy
        self.repair(name)

    def pause(
        self, name: str, *, paused: bool, seconds: int | None = None, client: str | None = None
    ) -> None:
        """Or resume; the queue or one client."""
        queue, model = self.queue(name), self.models[name]
        pauses = model.held_back.pauses
        if paused:
            until = None if seconds is None else timedelta(seconds=seconds)
            self.run(queue.pause(client=client, until=until))
            pauses.pause(model.now, seconds, client or "")
        else:
            was_paused = pauses.is_paused(model.now, client or "")
            assert self.run(queue.resume(client=client)) == was_paused
            pauses.resume(client or "")
