"""The web page that shows queues and items. Its changes are those of the service `claimq_admin`."""
