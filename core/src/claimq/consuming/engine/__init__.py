"""What every consumer of a queue needs: slots, the claims in flight, and the renewal of their leases."""
