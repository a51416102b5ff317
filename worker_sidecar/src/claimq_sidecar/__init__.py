"""The claimq worker sidecar: serves one queue to the app beside it over a Unix socket."""
