// Which line of the author's each line of a bundle comes from, in little room: a plugin carries it, and an error's stack
// is led back by it (src/stack.js).

import { isAbsolute, relative, resolve, sep } from "node:path";

import { decode } from "@jridgewell/sourcemap-codec";

// In characters. A plugin grows by about three times that: the engine keeps what it made of a script beside the script.
const ROOM = 32 * 1024;
const COLUMNS = 4;
const LINES = 2;

/**
 * The parts of a bundle in their order, each from one file: `[file, first line in the bundle, width, runs]`.
 *
 * `map` is the source map of the bundle `script`, whose files are named from `folder` on; the parts name them from `root`
 * on. What `isOwn` says is this package's has no name. A run is `width` numbers between commas: 4 where columns are known
 * (how many lines after the run before it begins, at which column, how many lines of the file lie between, what to add to
 * a column), 2 where lines are (the first and the third of these), and with 0 there are none. A run goes on for as long as
 * lines follow each other in both.
 *
 * The project's files are told with their columns, those of packages by their lines: a large package has so many.
 */
export function partsOf(script, map, { folder, root, isOwn }) {
  const files = map.sources.map((source) => resolve(folder, source));
  const indents = script.split("\n").map((text) => text.search(/\S|$/));
  const parts = [];
  decode(map.mappings).forEach((segments, at) => {
    for (const [column, source, line, sourceColumn] of segments) {
      if (source === undefined) continue;
      if (parts.at(-1)?.source !== source) parts.push({ source, first: at + 1, places: [] });
      // The bundler counts a line's indent to what stands behind it.
      const begin = Math.max(column, indents[at]);
      parts.at(-1).places.push({ at: at + 1, column: begin, line: line + 1, shift: sourceColumn - begin });
    }
  });
  return fit(
    parts.map(({ source, first, places }) => {
      const file = files[source];
      return isOwn(file) ? { name: "", first, places: [] } : { name: shown(file, root), first, places };
    }),
  );
}

/**
 * The project's own files first, and of them the last: it is the entry, and before it comes what it imports. What there is no
 * room for keeps its name.
 */
function fit(parts) {
  let room = ROOM;
  const isPackage = (part) => part.name.startsWith("node_modules/");
  for (const part of [...parts.filter((part) => !isPackage(part)).reverse(), ...parts.filter(isPackage)]) {
    const texts = isPackage(part) ? [byLine(part)] : [byColumn(part), byLine(part)];
    const [width, text] = texts.find(([, runs]) => runs.length > 0 && runs.length <= room) ?? [0, ""];
    room -= text.length;
    Object.assign(part, { width, text });
  }
  return parts
    .filter(({ name }, index) => name !== "" || name !== parts[index - 1]?.name)
    .map(({ name, first, width, text }) => [name, first, width, text]);
}

function byColumn({ first, places }) {
  const goesOn = (run, next) => run.shift === next.shift && next.line - run.line === next.at - run.at;
  const told = (run, at, line) => [run.at - at, run.column, run.line - line, run.shift];
  return [COLUMNS, numbers(first, places, goesOn, told)];
}

function byLine({ first, places }) {
  // What a line begins with says where it is from.
  const lines = places.filter((place, index) => place.at !== places[index - 1]?.at);
  const goesOn = (run, next) => next.line - run.line === next.at - run.at;
  return [LINES, numbers(first, lines, goesOn, (run, at, line) => [run.at - at, run.line - line])];
}

/** The runs that `places` make; the first counts from the part's first line and from line 0 of the file. */
function numbers(first, places, goesOn, told) {
  const runs = [];
  for (const place of places) {
    if (runs.length === 0 || !goesOn(runs.at(-1), place)) runs.push(place);
  }
  return runs.flatMap((run, index) => told(run, runs[index - 1]?.at ?? first, runs[index - 1]?.line ?? 0)).join(",");
}

/** A file as people are shown it: never where on this machine it is. */
function shown(file, root) {
  const path = relative(root, file).split(sep).join("/");
  const inPackages = path.lastIndexOf("node_modules/");
  if (inPackages >= 0) return path.slice(inPackages);
  return path.startsWith("../") || isAbsolute(path) ? path.slice(path.lastIndexOf("/") + 1) : path;
}
