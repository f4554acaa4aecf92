// The stack of an error leads into the one script that a plugin is made of; here it is led back to the author's files.

/** The engine's name for that script. */
const SCRIPT = "componentize-qjs:user.js";
const PLACE = /componentize-qjs:user\.js:(\d+):(\d+)/g;

let parts;

/** What lines.mjs says of the script, as JSON: read once there is a stack. Until it is said, texts stay as they are. */
export function setParts(next) {
  parts = next;
}

/**
 * A text with the author's files in place of the script. Lines of a stack that lie in this package or in what the bundler
 * added are left out; elsewhere nothing is.
 */
export function located(text) {
  if (!parts || !text.includes(SCRIPT)) return text;
  const known = JSON.parse(parts);
  const lines = text.split("\n").flatMap((line) => {
    const found = line.replace(PLACE, (whole, at, column) => place(known, Number(at), Number(column)) ?? whole);
    return /^\s+at /.test(found) && found.includes(SCRIPT) ? [] : [found];
  });
  // Who called the author's code is no longer there, so what the engine says of it leads nowhere.
  while (/^\s+at .*\(native\)$|^$/.test(lines.at(-1) ?? "-")) lines.pop();
  return lines.join("\n");
}

/** `file:line:column`, as much of it as is known; undefined where no author's file is. Lines and columns count from 1. */
function place(parts, at, column) {
  const [file, first, width, text] = parts.findLast((part) => part[1] <= at) ?? [""];
  if (file === "") return undefined;
  if (width === 0) return file;
  const runs = text.split(",").map(Number);
  let [begin, line, found] = [first, 0, null];
  for (let next = 0; next < runs.length; next += width) {
    begin += runs[next];
    line += runs[next + width / 2];
    // Columns of a run count from 0.
    if (begin > at || (begin === at && width === 4 && runs[next + 1] >= column)) break;
    found = { line: line + at - begin, shift: runs[next + 3] };
  }
  if (!found) return file;
  return width === 4 ? `${file}:${found.line}:${column + found.shift}` : `${file}:${found.line}`;
}
