package main

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

const (
	// How many paths are listed; the rest is added up.
	listedPaths = 10
	// How many paths are told apart: a scanner that asks for random paths must not fill the memory.
	distinctPaths = 10_000
)

// counts grows line by line.
type counts struct {
	lines, malformed uint64
	statuses         map[int]uint64
	paths            map[string]*pathCounts
	other            pathCounts
	sizes            []uint64
}

type pathCounts struct {
	Count uint64 `json:"count"`
	Bytes uint64 `json:"bytes"`
}

// summary is the handler's output.
type summary struct {
	Lines     uint64         `json:"lines"`
	Malformed uint64         `json:"malformed"`
	Bytes     uint64         `json:"bytes"`
	ByStatus  map[int]uint64 `json:"by_status"`
	// The most asked for first.
	ByPath     []listed   `json:"by_path"`
	OtherPaths pathCounts `json:"other_paths"`
	// null when there is no line to tell it from.
	ResponseSize *percentiles `json:"response_size"`
}

type listed struct {
	Path string `json:"path"`
	pathCounts
}

// percentiles are in bytes; each the smallest size that so many percent of the responses do not exceed.
type percentiles struct {
	P50 uint64 `json:"p50"`
	P90 uint64 `json:"p90"`
	P99 uint64 `json:"p99"`
	Max uint64 `json:"max"`
}

func newCounts() *counts {
	return &counts{statuses: map[int]uint64{}, paths: map[string]*pathCounts{}}
}

func (c *counts) add(text []byte) {
	c.lines++
	line, ok := parse(text)
	if !ok {
		c.malformed++
		return
	}
	c.statuses[line.status]++
	c.sizes = append(c.sizes, line.bytes)
	known := c.paths[line.path]
	if known == nil {
		known = &c.other
		if len(c.paths) < distinctPaths {
			known = &pathCounts{}
			c.paths[line.path] = known
		}
	}
	known.add(1, line.bytes)
}

func (c *counts) summary() *summary {
	byPath := make([]listed, 0, len(c.paths))
	for path, of := range c.paths {
		byPath = append(byPath, listed{path, *of})
	}
	slices.SortFunc(byPath, func(a, b listed) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Path, b.Path))
	})
	other := c.other
	for _, path := range byPath[min(listedPaths, len(byPath)):] {
		other.add(path.Count, path.Bytes)
	}
	slices.Sort(c.sizes)
	var sum uint64
	for _, size := range c.sizes {
		sum = saturatingAdd(sum, size)
	}
	return &summary{
		Lines: c.lines, Malformed: c.malformed, Bytes: sum, ByStatus: c.statuses,
		ByPath: byPath[:min(listedPaths, len(byPath))], OtherPaths: other, ResponseSize: percentilesOf(c.sizes),
	}
}

func (p *pathCounts) add(count, bytes uint64) {
	p.Count += count
	// A log can claim any size; a sum that would not fit stays at the largest number.
	p.Bytes = saturatingAdd(p.Bytes, bytes)
}

func saturatingAdd(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

// By nearest rank.
func percentilesOf(sorted []uint64) *percentiles {
	if len(sorted) == 0 {
		return nil
	}
	at := func(percent int) uint64 { return sorted[max((len(sorted)*percent+99)/100, 1)-1] }
	return &percentiles{P50: at(50), P90: at(90), P99: at(99), Max: at(100)}
}
