"""What the operator shows about itself: metrics, Events, health endpoints."""
