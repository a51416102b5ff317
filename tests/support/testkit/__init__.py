"""The kit of the tests: real servers in milliseconds, faults between them and a client, waiting without sleeping.

- `servers`: real Redis and Valkey servers: where their programs are, one server, a cluster, Sentinel, lost writes.
- `faults`: what may go wrong between a client and a server: a proxy, hostile servers, limits of memory.
- `programs`: programs that a test starts: processes, forks of imported programs, terminals, ports, their output.
- `workers`: sidecars, and the apps and handlers that take items from them.
- `queues`: short forms for tests of a queue: its time, its state, each role's calls, each script's calls.
- `checkers`: the plain model of a queue, and the checks that compare a server or a history with it.
- `properties`: random operations for the tests of properties, and how these search.
- `kubernetes`: objects of Kubernetes, an API server without a cluster, and the operator on it or in memory.
- `on_cluster`: a real cluster: images, a release of the chart, one queue with its pods, what its workers recorded.
- `repository`: the repository as data: its files, its scripts in Lua, its chart as helm renders it.
- `web`: users of the web page: by requests, by Chromium.

`plugin` makes pytest fixtures of servers and sidecars; `tiers` prints the summary of a run, `stalls` pauses tests at
random points. `waiting` waits for what must come; `skipping_loop` is an event loop whose time passes at once.
"""
