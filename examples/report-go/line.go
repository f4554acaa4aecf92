package main

import (
	"bytes"
	"strconv"
	"strings"
)

// What the report needs of a line of the common or the combined log format:
//
//	host ident user [time] "method path protocol" status bytes ["referer" "agent" …]
type line struct {
	// Without its query; "-" when the request is not of HTTP's form, as with probes that speak TLS to a plain port.
	path   string
	status int
	// Size of the response without its head; the format's "-" means none.
	bytes uint64
}

// False when the line is not of this format.
func parse(text []byte) (line, bool) {
	rest := text
	for range 3 { // host, ident, user
		if _, rest = word(rest); rest == nil {
			return line{}, false
		}
	}
	if _, rest = delimited(rest, '[', ']'); rest == nil {
		return line{}, false
	}
	request, rest := delimited(rest, '"', '"')
	if rest == nil {
		return line{}, false
	}
	status, rest := word(rest)
	size, rest := word(rest)
	if rest == nil || !digits(status) {
		return line{}, false
	}
	code, err := strconv.Atoi(string(status))
	if err != nil || code < 100 || code > 999 {
		return line{}, false
	}
	of := line{path: path(request), status: code}
	if string(size) != "-" {
		if of.bytes, err = strconv.ParseUint(string(size), 10, 64); err != nil || !digits(size) {
			return line{}, false
		}
	}
	return of, true
}

// The path of `GET /a?b HTTP/1.1`.
func path(request []byte) string {
	parts := strings.Split(string(request), " ")
	if len(parts) != 3 || parts[1] == "" {
		return "-"
	}
	before, _, _ := strings.Cut(parts[1], "?")
	return strings.ToValidUTF8(before, "\uFFFD")
}

// The next word and what follows it, which is nil when there is no word.
func word(text []byte) ([]byte, []byte) {
	text = bytes.TrimLeft(text, " \t\r\f")
	end := bytes.IndexAny(text, " \t\r\f")
	if end < 0 {
		end = len(text)
	}
	if end == 0 {
		return nil, nil
	}
	return text[:end], text[end:]
}

// What stands between two delimiters, a backslash protecting the next byte, and what follows it.
func delimited(text []byte, open, end byte) ([]byte, []byte) {
	text = bytes.TrimLeft(text, " \t\r\f")
	if len(text) == 0 || text[0] != open {
		return nil, nil
	}
	for at := 1; at < len(text); at++ {
		switch text[at] {
		case '\\':
			at++
		case end:
			return text[1:at], text[at+1:]
		}
	}
	return nil, nil
}

func digits(text []byte) bool {
	for _, digit := range text {
		if digit < '0' || digit > '9' {
			return false
		}
	}
	return len(text) > 0
}
