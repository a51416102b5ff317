"""The web page that shows queues and items. It only reads: no module here can change a queue."""
