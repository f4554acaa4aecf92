// Package httpclient lets net/http's client work in a plugin: its requests go through the host, to origins that the
// operator and the job's manifest both allow.
//
//	response, err := httpclient.New(run).Get("https://api.example.com/items")
//
// It adds some megabytes to a plugin; leasehold.Run.Send does without.
package httpclient

import (
	"bytes"
	"io"
	"net/http"
	"net/textproto"
	"strconv"

	"leasehold"
)

// New is a client for this run. Redirects are followed by the client, so each of their targets must be granted, too.
func New(run *leasehold.Run) *http.Client { return &http.Client{Transport: Transport{Run: run}} }

// Transport is an http.RoundTripper over the host. It fails with a [*leasehold.HTTPError].
//
// The whole response is there when it returns, so nothing is streamed; a request's body is read whole before it is sent,
// and has at most 1 MiB. The headers of the connection itself (host, content-length …) are the host's.
type Transport struct {
	// Run is which run it sends for.
	Run *leasehold.Run
}

// RoundTrip sends one request.
func (t Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	sent := leasehold.Request{Method: request.Method, URL: request.URL.String()}
	if request.Body != nil {
		defer request.Body.Close()
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		sent.Body = body
	}
	for name, values := range request.Header {
		for _, value := range values {
			sent.Add(name, value)
		}
	}
	got, err := t.Run.Send(request.Context(), &sent)
	if err != nil {
		return nil, err
	}
	header := make(http.Header, len(got.Header))
	for _, pair := range got.Header {
		name := textproto.CanonicalMIMEHeaderKey(pair[0])
		header[name] = append(header[name], pair[1])
	}
	return &http.Response{
		Status:     strconv.Itoa(got.Status) + " " + http.StatusText(got.Status),
		StatusCode: got.Status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(got.Body)), ContentLength: int64(len(got.Body)),
		Request: request,
	}, nil
}
