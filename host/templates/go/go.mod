module plugins/plugin-name

go 1.25

require leasehold v0.0.0

replace leasehold => ./sdk
