"""The commands of `claimq`, one module for each group of them."""
