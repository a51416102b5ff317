"""Where a program finds its server: URLs, environment variables, the running local mode."""
