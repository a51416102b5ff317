"""The repository as data: its files, its scripts in Lua, its chart as helm renders it."""
