module claimq.dev/go

go 1.23
