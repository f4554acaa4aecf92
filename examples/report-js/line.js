// One line of the common or the combined log format:
//
//     host ident user [time] "method path protocol" status bytes ["referer" "agent" …]

// White space is ASCII's; what stands between two delimiters may have them behind a backslash.
const WORD = String.raw`[ \t\f\r]*([^ \t\f\r]+)(?=[ \t\f\r]|$)`;
const TIME = String.raw`[ \t\f\r]*\[(?:\\.|[^\\\]])*\]`;
const REQUEST = String.raw`[ \t\f\r]*"((?:\\.|[^\\"])*)"`;
const LINE = new RegExp(`^${WORD}${WORD}${WORD}${TIME}${REQUEST}${WORD}${WORD}`);

/** What the report needs of a line: its path, status and size. `null` when the line is not of this format. */
export function parse(text) {
  const parts = LINE.exec(text);
  if (!parts) return null;
  const [, , , , request, status, bytes] = parts;
  // The path is without its query, and `-` when the request is not of HTTP's form. `-` means no bytes.
  const line = { path: path(request), status: count(status), bytes: bytes === "-" ? 0 : count(bytes) };
  return line.status >= 100 && line.status < 1000 && Number.isSafeInteger(line.bytes) ? line : null;
}

/** The path of `GET /a?b HTTP/1.1`. */
function path(request) {
  const [, target, protocol, ...more] = request.split(" ");
  if (!target || protocol === undefined || more.length > 0) return "-";
  return target.split("?", 1)[0];
}

function count(digits) {
  return /^[0-9]+$/.test(digits) ? Number(digits) : NaN;
}
