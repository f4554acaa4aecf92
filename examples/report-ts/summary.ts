// What the lines add up to.

import { parse } from "./line.ts";

/** How many paths are listed; the rest is added up. */
const LISTED_PATHS = 10;
/** How many paths are told apart: a scanner that asks for random paths must not fill the memory. */
const DISTINCT_PATHS = 10_000;

interface PathCounts {
  count: number;
  bytes: number;
}

/** Grows line by line. */
export class Counts {
  lines = 0;
  malformed = 0;
  #statuses: Record<number, number> = {};
  #paths = new Map<string, PathCounts>();
  #other: PathCounts = { count: 0, bytes: 0 };
  #sizes: number[] = [];

  add(text: string): void {
    this.lines += 1;
    const line = parse(text);
    if (!line) {
      this.malformed += 1;
      return;
    }
    this.#statuses[line.status] = (this.#statuses[line.status] ?? 0) + 1;
    this.#sizes.push(line.bytes);
    let counts = this.#paths.get(line.path);
    if (!counts && this.#paths.size < DISTINCT_PATHS) {
      counts = { count: 0, bytes: 0 };
      this.#paths.set(line.path, counts);
    }
    addTo(counts ?? this.#other, 1, line.bytes);
  }

  summary() {
    // The most asked for first.
    const paths = [...this.#paths].map(([path, counts]) => ({ path, ...counts }));
    paths.sort((a, b) => b.count - a.count || (a.path < b.path ? -1 : 1));
    const other = { ...this.#other };
    for (const { count, bytes } of paths.splice(LISTED_PATHS)) addTo(other, count, bytes);
    return {
      lines: this.lines,
      malformed: this.malformed,
      bytes: this.#sizes.reduce(sum, 0),
      by_status: this.#statuses,
      by_path: paths,
      other_paths: other,
      response_size: percentiles(this.#sizes.sort((a, b) => a - b)),
    };
  }
}

function addTo(counts: PathCounts, count: number, bytes: number): void {
  counts.count += count;
  counts.bytes = sum(counts.bytes, bytes);
}

/** A log can claim any size; a sum that could not be exact stays at the largest number that is. */
function sum(a: number, b: number): number {
  return Math.min(a + b, Number.MAX_SAFE_INTEGER);
}

/** Bytes; each the smallest size that so many percent of the responses do not exceed. `null` without any. */
function percentiles(sorted: number[]) {
  if (sorted.length === 0) return null;
  const at = (percent: number) => sorted[Math.max(0, Math.ceil((sorted.length * percent) / 100) - 1)]!;
  return { p50: at(50), p90: at(90), p99: at(99), max: at(100) };
}
