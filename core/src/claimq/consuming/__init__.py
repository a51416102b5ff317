"""The engine that takes items: claims ahead, claims held and their leases, handlers, verdicts and give-backs."""
