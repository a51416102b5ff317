"""What may go wrong between a client and a server: a proxy, hostile servers, limits of memory."""
