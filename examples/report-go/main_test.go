package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"leasehold"
	"leasehold/leaseholdtest"
)

const sample = `192.0.2.1 - - [29/Nov/2026:10:00:00 +0000] "GET /a?b HTTP/1.1" 200 100 "-" "curl/8.5.0"`

func reported(t *testing.T, payload string) string {
	t.Helper()
	host := leaseholdtest.New()
	output, err := leasehold.Call(host.Context, host.Run, []byte(payload), report)
	if err != nil {
		t.Fatal(err)
	}
	return string(output)
}

func TestARawLogIsCountedAndItsBrokenLinesToo(t *testing.T) {
	got := reported(t, sample+"\n\nnonsense\n"+sample+"\r\n")
	want := `{"lines":3,"malformed":1,"bytes":200,"by_status":{"200":2},` +
		`"by_path":[{"path":"/a","count":2,"bytes":200}],"other_paths":{"count":0,"bytes":0},` +
		`"response_size":{"p50":100,"p90":100,"p99":100,"max":100}}`
	if got != want {
		t.Errorf("got %s", got)
	}
}

func TestARequestWithAPaceGivesTheSameReportAsTheRawLog(t *testing.T) {
	request, err := json.Marshal(map[string]any{"log": sample, "pace_ms": 20})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := reported(t, string(request)), reported(t, sample); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAnEmptyLogGivesAReportOfNothing(t *testing.T) {
	if got := reported(t, ""); !strings.Contains(got, `"lines":0`) || !strings.HasSuffix(got, `"response_size":null}`) {
		t.Errorf("got %s", got)
	}
}

func TestWhatIsNeitherALogNorARequestIsRefused(t *testing.T) {
	host := leaseholdtest.New()
	for _, payload := range []string{"{", `{"pace_ms": 1}`, `{"log": "", "what": 1}`} {
		_, err := leasehold.Call(host.Context, host.Run, []byte(payload), report)
		var failed *leasehold.Error
		if !errors.As(err, &failed) || failed.Code != "bad-input" || failed.Kind != leasehold.KindPermanent {
			t.Errorf("%s: %v", payload, err)
		}
	}
}

func TestItStopsBetweenTwoChunks(t *testing.T) {
	host := leaseholdtest.New()
	host.StopAfter(1, "stopping")
	log := strings.Repeat(sample+"\n", 2*chunk)
	_, err := leasehold.Call(host.Context, host.Run, []byte(log), report)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if host.Progress == nil || host.Progress.Done != chunk || host.Progress.Total != 2*chunk {
		t.Errorf("got %+v", host.Progress)
	}
}

func TestTheSampleLogIsReadAsByTheExampleInRust(t *testing.T) {
	log, err := os.ReadFile("../report/access.log")
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Lines, Malformed uint64 }
	if err := json.Unmarshal([]byte(reported(t, string(log))), &got); err != nil {
		t.Fatal(err)
	}
	if got.Lines != uint64(strings.Count(string(log), "\n")) || got.Malformed == got.Lines {
		t.Errorf("got %+v", got)
	}
}
