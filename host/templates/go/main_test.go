package main

import (
	"context"
	"errors"
	"testing"

	"leasehold"
	"leasehold/leaseholdtest"
)

func TestItGreetsByName(t *testing.T) {
	host := leaseholdtest.New()
	output, err := leasehold.Call(host.Context, host.Run, []byte(`{"name": "Ada"}`), greet)
	if err != nil || string(output) != `"Hello, Ada!"` {
		t.Errorf("got %s, %v", output, err)
	}
}

func TestItGreetsNobodyOnceTheRunIsLost(t *testing.T) {
	host := leaseholdtest.New()
	host.Stop("lost")
	if _, err := greet(host.Context, host.Run, greeting{"Ada"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
