package leasehold_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"leasehold"
	"leasehold/httpclient"
	"leasehold/leaseholdtest"
)

type input struct{ Name string }

func greet(ctx context.Context, run *leasehold.Run, in input) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return "Hello, " + in.Name + " & <all>", nil
}

func call(host *leaseholdtest.Host, payload string) (string, error) {
	output, err := leasehold.Call(host.Context, host.Run, []byte(payload), greet)
	return string(output), err
}

func TestJSONGoesInAndOutAndStaysAsItIs(t *testing.T) {
	output, err := call(leaseholdtest.New(), `{"name": "Ada"}`)
	if err != nil || output != `"Hello, Ada & <all>"` {
		t.Errorf("%s, %v", output, err)
	}
	if output, err := call(leaseholdtest.New(), ""); err != nil || output != `"Hello,  & <all>"` {
		t.Errorf("an empty payload: %s, %v", output, err)
	}
}

func TestOneHandlerIsRegisteredAndNeverNil(t *testing.T) {
	register := func(handler func(context.Context, *leasehold.Run, input) (string, error)) (why any) {
		defer func() { why = recover() }()
		leasehold.Handle(handler)
		return nil
	}
	for _, want := range []string{"with nil", "", "twice"} {
		handler := greet
		if want == "with nil" {
			handler = nil
		}
		if why := fmt.Sprint(register(handler)); !strings.Contains(why, want) || want == "" && why != "<nil>" {
			t.Errorf("%q: %s", want, why)
		}
	}
}

func TestAPayloadThatDoesNotFitIsPermanent(t *testing.T) {
	_, err := call(leaseholdtest.New(), `{"name": 1}`)
	var failed *leasehold.Error
	if !errors.As(err, &failed) || failed.Kind != leasehold.KindPermanent || failed.Code != "bad-input" {
		t.Errorf("%v", err)
	}
}

func TestBytesPassUntouched(t *testing.T) {
	raw := []byte{0, 255, '{'}
	host := leaseholdtest.New()
	echo := func(_ context.Context, _ *leasehold.Run, in []byte) ([]byte, error) { return in, nil }
	output, err := leasehold.Call(host.Context, host.Run, raw, echo)
	if err != nil || string(output) != string(raw) {
		t.Errorf("%v, %v", output, err)
	}
}

func TestAStoppedRunsContextEndsWithTheReasonAsItsCause(t *testing.T) {
	host := leaseholdtest.New()
	if host.Context.Err() != nil || host.Run.StopReason() != "" {
		t.Fatal("it has not been stopped yet")
	}
	derived, cancel := context.WithCancel(host.Context)
	defer cancel()
	host.Stop("lost")
	if err := host.Run.Sleep(time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("a wait: %v", err)
	}
	if !errors.Is(host.Context.Err(), context.Canceled) {
		t.Errorf("the context: %v", host.Context.Err())
	}
	for name, ctx := range map[string]context.Context{"its own": host.Context, "a derived one": derived} {
		<-ctx.Done()
		var stop *leasehold.StopError
		if !errors.As(context.Cause(ctx), &stop) || stop.Reason != "lost" {
			t.Errorf("%s: %v", name, context.Cause(ctx))
		}
	}
}

func TestWhoWaitsOnTheContextIsToldWithoutAsking(t *testing.T) {
	host := leaseholdtest.New()
	host.StopAfter(3, "stopping")
	<-host.Context.Done()
	if host.Run.StopReason() != "stopping" {
		t.Errorf("got %q", host.Run.StopReason())
	}
}

func TestACheckpointComesBackAsItWasSaved(t *testing.T) {
	run := leaseholdtest.New().Run
	var got []int
	if found, err := run.LoadState(&got); found || err != nil {
		t.Errorf("%v, %v", found, err)
	}
	if err := run.SaveState([]int{1, 2}); err != nil {
		t.Error(err)
	}
	if found, err := run.LoadState(&got); !found || err != nil || fmt.Sprint(got) != "[1 2]" {
		t.Errorf("%v, %v, %v", got, found, err)
	}
	var other string
	var failed *leasehold.Error
	if _, err := run.LoadState(&other); !errors.As(err, &failed) || failed.Code != "bad-state" {
		t.Errorf("%v", err)
	}
}

func TestTheDoubleKeepsKeysInOrderAndCompares(t *testing.T) {
	kv := leaseholdtest.New().Run.KV()
	for _, key := range []string{"b", "a/2", "a/1"} {
		if err := kv.Set(key, []byte(key)); err != nil {
			t.Error(err)
		}
	}
	if keys, err := kv.Keys("a/", 10); err != nil || fmt.Sprint(keys) != "[a/1 a/2]" {
		t.Errorf("%v, %v", keys, err)
	}
	if keys, err := kv.KeysAfter("a/", "a/1", 10); err != nil || fmt.Sprint(keys) != "[a/2]" {
		t.Errorf("%v, %v", keys, err)
	}
	wrong, _ := kv.CompareAndSet("b", nil, []byte("x"))
	right, _ := kv.CompareAndSet("b", []byte("b"), []byte("x"))
	value, found, _ := kv.Get("b")
	if wrong || !right || !found || string(value) != "x" {
		t.Errorf("%v, %v, %v, %s", wrong, right, found, value)
	}
	if deleted, err := kv.Delete("b"); !deleted || err != nil {
		t.Errorf("%v, %v", deleted, err)
	}
}

func TestNetHTTPsClientGoesThroughTheHost(t *testing.T) {
	host := leaseholdtest.New()
	host.Answer = func(request *leasehold.Request) (*leasehold.Response, error) {
		text := request.Method + " " + request.URL + " " + string(request.Body)
		return &leasehold.Response{Status: 201, Header: [][2]string{{"x-reply", "yes"}}, Body: []byte(text)}, nil
	}
	response, err := httpclient.New(host.Run).Post("https://api.example.com/x", "text/plain", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusCreated || response.Header.Get("X-Reply") != "yes" ||
		string(body) != "POST https://api.example.com/x body" {
		t.Errorf("%v, %+v, %s", err, response, body)
	}
}

func TestAHeaderIsSetInPlaceOfOthersAndAddedBesideThem(t *testing.T) {
	host := leaseholdtest.New()
	var got [][2]string
	host.Answer = func(request *leasehold.Request) (*leasehold.Response, error) {
		got = request.Header
		return &leasehold.Response{Status: 200}, nil
	}
	request, err := leasehold.JSONRequest("POST", "https://api.example.com/", 1)
	if err != nil {
		t.Fatal(err)
	}
	request.Add("X-Tag", "a").Add("x-tag", "b").Set("Content-Type", "application/problem+json")
	_, err = host.Run.Send(host.Context, request)
	want := [][2]string{{"X-Tag", "a"}, {"x-tag", "b"}, {"Content-Type", "application/problem+json"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}

	tagged, err := http.NewRequest("GET", "https://api.example.com/", nil)
	if err != nil {
		t.Fatal(err)
	}
	tagged.Header.Add("X-Tag", "a")
	tagged.Header.Add("X-Tag", "b")
	response, err := httpclient.New(host.Run).Do(tagged)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if want := [][2]string{{"X-Tag", "a"}, {"X-Tag", "b"}}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestWithoutAnAnswerNothingIsGranted(t *testing.T) {
	host := leaseholdtest.New()
	_, small := host.Run.Send(host.Context, &leasehold.Request{URL: "https://api.example.com/"})
	_, big := httpclient.New(host.Run).Get("https://api.example.com/")
	for _, err := range []error{small, big} {
		var denied *leasehold.HTTPError
		if !errors.As(err, &denied) || denied.Case != "denied" {
			t.Errorf("%v", err)
		}
	}
}

func TestAnAnswerIsOKOrSaysWhetherATryIsWorthIt(t *testing.T) {
	for status, kind := range map[int]leasehold.Kind{404: leasehold.KindPermanent, 503: leasehold.KindRetryable} {
		var failed *leasehold.Error
		if err := (&leasehold.Response{Status: status}).OK(); !errors.As(err, &failed) || failed.Kind != kind {
			t.Errorf("%d: %v", status, err)
		}
	}
	if err := (&leasehold.Response{Status: 204}).OK(); err != nil {
		t.Error(err)
	}
}

func TestLinesOfSlogReachTheHostWithTheirFields(t *testing.T) {
	host := leaseholdtest.New()
	logger := slog.New(host.Run.NewLogHandler()).With("a", 1).WithGroup("g")
	logger.Log(host.Context, leasehold.LevelTrace, "grüße", "n", 7, slog.Group("inner", "s", "späß"))
	want := "[{trace grüße [[a 1] [g.n 7] [g.inner.s späß]]}]"
	if got := fmt.Sprint(host.Log); got != want {
		t.Errorf("got %s", got)
	}
}
