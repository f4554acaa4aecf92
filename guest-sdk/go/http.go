package leasehold

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"leasehold/internal/host"
)

// Request is a request to an origin that the operator and the job's manifest both allow. The host adds
// x-leasehold-run, x-leasehold-attempt and x-leasehold-fence, and follows no redirect.
//
// Package leasehold/httpclient offers net/http's client instead, which adds some megabytes to a plugin.
type Request struct {
	// Method is GET when it is empty.
	Method string
	URL    string
	// Header are pairs of name and value.
	Header [][2]string
	// Body is at most 1 MiB. None is nil.
	Body []byte
	// Timeout of all of it, at most what remains of the attempt, which it is when this is 0.
	Timeout time.Duration
}

// Response is a whole response, of at most 16 MiB.
type Response struct {
	// Status is the code, whatever it says.
	Status int
	// Header are pairs of name, in lower case, and value. One whose value is not UTF-8 is left out.
	Header [][2]string
	Body   []byte
}

// JSONRequest is a request whose body is a value's JSON, and which says so in content-type. Fails as permanent
// bad-request when the value has no form in JSON.
func JSONRequest(method, url string, value any) (*Request, error) {
	body, err := write(value)
	if err != nil {
		return nil, Permanent("bad-request", fmt.Errorf("the request's body is not JSON: %w", err))
	}
	return &Request{Method: method, URL: url, Header: [][2]string{{"content-type", "application/json"}}, Body: body}, nil
}

// Set sets a header, in place of all that have this name, in whatever case.
func (r *Request) Set(name, value string) *Request {
	isIt := func(pair [2]string) bool { return strings.EqualFold(pair[0], name) }
	// A copy, as requests may begin with the same headers.
	r.Header = slices.DeleteFunc(slices.Clone(r.Header), isIt)
	return r.Add(name, value)
}

// Add adds a header beside those that have this name.
func (r *Request) Add(name, value string) *Request {
	r.Header = append(r.Header, [2]string{name, value})
	return r
}

// Send sends a request and waits for the whole response; while the lease is in doubt, it waits before it sends. Any
// status is a response; without one it fails with an [*HTTPError], or the context's own error when that has ended.
func (r *Run) Send(ctx context.Context, request *Request) (*Response, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	response, failure := r.host.Send(host.Request{
		Method: orGet(request.Method), URL: request.URL, Headers: fields(request.Header), Body: request.Body,
		TimeoutMS: timeout(ctx, request.Timeout),
	})
	if failure != nil {
		return nil, &HTTPError{Case: failure.Case, Reason: failure.Reason, Limit: failure.Limit}
	}
	header := make([][2]string, len(response.Headers))
	for i, field := range response.Headers {
		header[i] = [2]string{field.Key, field.Value}
	}
	return &Response{Status: int(response.Status), Header: header, Body: response.Body}, nil
}

// Get is the first header of this name, and empty when there is none.
func (r *Response) Get(name string) string {
	for _, pair := range r.Header {
		if strings.EqualFold(pair[0], name) {
			return pair[1]
		}
	}
	return ""
}

// JSON reads the body. Fails as retryable bad-response when it does not fit.
func (r *Response) JSON(into any) error {
	if err := json.Unmarshal(r.Body, into); err != nil {
		return Retryable("bad-response", fmt.Errorf("the response does not fit: %w", err))
	}
	return nil
}

// OK fails unless the status is 2xx: with http-status, and the status as a detail, retryable for 5xx, 408 and 429,
// permanent for all others.
func (r *Response) OK() error {
	err := fmt.Errorf("the server answered %d", r.Status)
	switch {
	case r.Status >= 200 && r.Status <= 299:
		return nil
	case r.Status == 408, r.Status == 429, r.Status >= 500 && r.Status <= 599:
		return Retryable("http-status", err).With("status", r.Status)
	default:
		return Permanent("http-status", err).With("status", r.Status)
	}
}

func orGet(method string) string {
	if method == "" {
		return "GET"
	}
	return method
}

func fields(pairs [][2]string) []host.Field {
	fields := make([]host.Field, len(pairs))
	for i, pair := range pairs {
		fields[i] = host.Field{Key: pair[0], Value: pair[1]}
	}
	return fields
}

// timeout is the earlier of the request's own and that of its context.
func timeout(ctx context.Context, own time.Duration) *uint64 {
	if deadline, ok := ctx.Deadline(); ok {
		// One that is over is told by the host as such, and not mistaken for none.
		if left := max(time.Until(deadline), time.Millisecond); own <= 0 || left < own {
			own = left
		}
	}
	if own <= 0 {
		return nil
	}
	ms := millis(own)
	return &ms
}
