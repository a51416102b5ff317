module example

go 1.23

require claimq.dev/go v0.0.0

replace claimq.dev/go => ../../clients/go
