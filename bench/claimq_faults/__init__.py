"""The fault table: what each fault of a server or a process does to the items of a queue under load."""
