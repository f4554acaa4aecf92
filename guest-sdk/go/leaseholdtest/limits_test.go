package leaseholdtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"leasehold"
	"leasehold/leaseholdtest"
)

func TestWhatIsTooLargeForTheHostIsNotKept(t *testing.T) {
	host := leaseholdtest.New()
	kv, long, large := host.Run.KV(), strings.Repeat("k", 513), make([]byte, 1<<20+1)
	for i, refused := range []struct {
		limit uint64
		call  func() error
	}{
		{512, func() error { _, _, err := kv.Get(long); return err }},
		{512, func() error { return kv.Set(long, nil) }},
		{512, func() error { _, err := kv.Delete(long); return err }},
		{512, func() error { _, err := kv.Keys(long, 1); return err }},
		{512, func() error { _, err := kv.KeysAfter("", long, 1); return err }},
		{512, func() error { _, err := kv.CompareAndSet(long, nil, nil); return err }},
		{1 << 20, func() error { return kv.Set("k", large) }},
		{1 << 20, func() error { _, err := kv.CompareAndSet("k", nil, large); return err }},
		{1 << 20, func() error { return host.Run.SaveState(large) }},
	} {
		var why *leasehold.StorageError
		if err := refused.call(); !errors.As(err, &why) || why.Case != "too-large" || why.Limit != refused.limit {
			t.Errorf("%d: %v", i, err)
		}
	}
	if len(host.KV) != 0 || host.State != nil {
		t.Errorf("%d keys, %d bytes", len(host.KV), len(host.State))
	}
	if err := kv.Set(long[1:], large[1:]); err != nil {
		t.Error(err)
	}
}

func TestWhatTheHostDoesNotSendIsNotAnswered(t *testing.T) {
	host := leaseholdtest.New()
	host.Answer = func(*leasehold.Request) (*leasehold.Response, error) { return &leasehold.Response{}, nil }
	to := func(url string) *leasehold.Request { return &leasehold.Request{URL: url} }
	get := func() *leasehold.Request { return to("https://api.example.com/") }
	many := get()
	for range 101 {
		many.Add("x-note", "a")
	}
	const unusable = "invalid: the URL cannot be used: "
	for _, refused := range []struct {
		request *leasehold.Request
		want    string
	}{
		{get().Set("x-note", "grüße\t"), "<nil>"},
		{to("/orders"), unusable + "it is not a URL: relative URL without a base"},
		{to("ftp://a"), unusable + "its scheme is neither https nor http"},
		{to("https://a/ b"), unusable + "it contains a space or a control character"},
		{get().Set("x note", "a"), `invalid: "x note" is no header's name`},
		{get().Set("x-note", "a\nb"), "invalid: the header x-note has a value that cannot be sent"},
		{get().Set("x-note", strings.Repeat("a", 1<<16)), "larger than the 65536 bytes allowed"},
		{&leasehold.Request{URL: "https://a/", Body: make([]byte, 1<<20+1)}, "larger than the 1048576 bytes allowed"},
		{many, "invalid: it has 101 headers, more than 100"},
	} {
		if _, err := host.Run.Send(context.Background(), refused.request); fmt.Sprint(err) != refused.want {
			t.Errorf("%v, not %s", err, refused.want)
		}
	}
}

func TestWhatTheHostWouldTrapOnEndsTheTest(t *testing.T) {
	host := leaseholdtest.New()
	const bad = "caf\xe9"
	send := func(url, value string) {
		request := (&leasehold.Request{URL: url}).Set("x-note", value)
		_, _ = host.Run.Send(context.Background(), request)
	}
	host.Answer = func(*leasehold.Request) (*leasehold.Response, error) { return &leasehold.Response{}, nil }
	for name, call := range map[string]func(){
		"a key":        func() { _ = host.Run.KV().Set(bad, nil) },
		"a setting":    func() { host.Run.Config(bad) },
		"an operation": func() { host.Run.IdempotencyKey(bad) },
		"a URL":        func() { send("https://a/"+bad, "") },
		"a header":     func() { send("https://a/", bad) },
	} {
		func() {
			defer func() {
				if why := fmt.Sprint(recover()); !strings.Contains(why, "not UTF-8, on which it traps") {
					t.Errorf("%s: %s", name, why)
				}
			}()
			call()
		}()
	}
}
