module leasehold

go 1.25
