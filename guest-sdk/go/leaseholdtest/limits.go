package leaseholdtest

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"leasehold/internal/host"
)

// What the host refuses whatever it was granted, in its words, as far as that is told without reading a URL as it does.
const (
	maxKey = 512
	// Bytes of a value, and of a checkpoint.
	maxValue = 1 << 20
	// Keys in one answer.
	maxList    = 1000
	maxURL     = 8 * 1024
	maxBody    = 1 << 20
	maxHeaders = 100
	// Bytes of all headers together.
	maxHeaderBytes = 64 * 1024
)

var headerName = regexp.MustCompile("^[!#$%&'*+\\-.^_`|~0-9A-Za-z]+$")

// told is a text that the host is told. It traps on one that is not UTF-8, so this ends the test.
func told(text string) string {
	if !utf8.ValidString(text) {
		panic(fmt.Sprintf("the host was given a text that is not UTF-8, on which it traps: %q", text))
	}
	return text
}

func check(key string, value []byte) *host.Failure {
	switch {
	case len(told(key)) > maxKey:
		return tooLarge(maxKey)
	case len(value) > maxValue:
		return tooLarge(maxValue)
	default:
		return nil
	}
}

func checkURL(url string) *host.Failure {
	scheme, _, found := strings.Cut(told(url), ":")
	isUnsafe := func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }
	switch {
	case len(url) > maxURL:
		return invalid("the URL cannot be used: it is longer than %d bytes", maxURL)
	case strings.ContainsFunc(url, isUnsafe):
		return invalid("the URL cannot be used: it contains a space or a control character")
	case !found:
		return invalid("the URL cannot be used: it is not a URL: relative URL without a base")
	case !strings.EqualFold(scheme, "https") && !strings.EqualFold(scheme, "http"):
		return invalid("the URL cannot be used: its scheme is neither https nor http")
	default:
		return nil
	}
}

func checkRequest(request host.Request) *host.Failure {
	told(request.Method)
	if len(request.Body) > maxBody {
		return tooLarge(maxBody)
	}
	if len(request.Headers) > maxHeaders {
		return invalid("it has %d headers, more than %d", len(request.Headers), maxHeaders)
	}
	size := 0
	for _, field := range request.Headers {
		size += len(told(field.Key)) + len(told(field.Value))
	}
	if size > maxHeaderBytes {
		return tooLarge(maxHeaderBytes)
	}
	for _, field := range request.Headers {
		if !headerName.MatchString(field.Key) {
			return invalid("%q is no header's name", field.Key)
		}
		isUnsafe := func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
		if strings.ContainsFunc(field.Value, isUnsafe) {
			return invalid("the header %s has a value that cannot be sent", field.Key)
		}
	}
	return nil
}

func tooLarge(limit uint64) *host.Failure { return &host.Failure{Case: "too-large", Limit: limit} }

func invalid(format string, values ...any) *host.Failure {
	return &host.Failure{Case: "invalid", Reason: fmt.Sprintf(format, values...)}
}
