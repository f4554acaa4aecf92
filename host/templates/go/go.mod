module example.invalid/plugin

go 1.25

require leasehold v0.0.0

replace leasehold => ./sdk
