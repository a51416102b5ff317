"""Which operator acts: by a Lease for each release, and one in each namespace with queues."""
