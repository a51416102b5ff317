"""The web page that shows queues and items. It only reads: no module here knows how to change a queue."""
