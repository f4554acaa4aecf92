//go:build !wasip1

package leasehold

func export(untyped) {}
