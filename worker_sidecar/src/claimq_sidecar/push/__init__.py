"""Sends items to an app that listens for them, as CloudEvents over HTTP."""
