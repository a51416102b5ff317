"""Local mode (`claimq up`): runs the queues of a manifest on one machine, with processes instead of pods."""
