"""Users of the web page: by requests, by Chromium."""
