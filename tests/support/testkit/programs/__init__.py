"""Programs that a test starts: processes, forks of imported programs, terminals, ports, their output."""
