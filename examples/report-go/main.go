// Reads a web server's access log and says what is in it.
//
// The payload is the log itself, in the common or the combined log format, as payload_file hands it over. It may instead
// be a JSON object, {"log": "…", "pace_ms": 20}: then the handler waits that long after each chunk of lines, so that it
// can be watched at work, and stopped or killed in the middle of it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"leasehold"
)

func init() { leasehold.Handle(report) }
func main() {}

// How many lines are read between two looks at the signal.
const chunk = 200

func report(ctx context.Context, run *leasehold.Run, payload []byte) (*summary, error) {
	log, pace, err := read(payload)
	if err != nil {
		return nil, err
	}
	var lines [][]byte
	for line := range bytes.SplitSeq(log, []byte("\n")) {
		if len(bytes.TrimSpace(line)) > 0 {
			lines = append(lines, line)
		}
	}
	slog.Info("reading an access log", "lines", len(lines), "attempt", run.Attempt)

	counted := newCounts()
	for from := 0; from < len(lines); from += chunk {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for _, line := range lines[from:min(from+chunk, len(lines))] {
			counted.add(line)
		}
		run.Progress(counted.lines, uint64(len(lines)), "lines read")
		if pace > 0 {
			if err := run.Sleep(pace); err != nil {
				return nil, err
			}
		}
	}
	if counted.malformed > 0 {
		slog.Warn("some lines are not in the common or combined log format", "malformed", counted.malformed)
	}
	return counted.summary(), nil
}

// The log and the wait after each chunk.
func read(payload []byte) ([]byte, time.Duration, error) {
	// No line of an access log begins with a brace: its first field is a host name or an address.
	if !bytes.HasPrefix(bytes.TrimSpace(payload), []byte("{")) {
		return payload, 0, nil
	}
	var request struct {
		Log    *string `json:"log"`
		PaceMS uint64  `json:"pace_ms"`
	}
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&request)
	if err == nil && request.Log == nil {
		err = fmt.Errorf("it has no log")
	}
	if err != nil {
		return nil, 0, leasehold.Permanent("bad-input",
			fmt.Errorf("the payload is neither an access log nor a request: %w", err))
	}
	return []byte(*request.Log), time.Duration(min(request.PaceMS, 1<<31)) * time.Millisecond, nil
}
