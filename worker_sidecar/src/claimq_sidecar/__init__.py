"""The claimq worker sidecar: hands items of one queue to the app beside it over a Unix socket."""
