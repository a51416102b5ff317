"""What the tests stand on: real servers in milliseconds, faults between them and us, waiting without sleeping.

A pytest plugin (`testkit.plugin`) turns it into fixtures. Nothing here knows what claimq does.
"""
