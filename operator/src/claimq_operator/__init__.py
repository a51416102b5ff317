"""The claimq operator: looks at each ReliableQueue, decides, and makes it so, again and again."""
