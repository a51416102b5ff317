"""Who uses the page, what a user may see and do, and how much."""
