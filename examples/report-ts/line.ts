// One line of the common or the combined log format:
//
//     host ident user [time] "method path protocol" status bytes ["referer" "agent" …]

/** What the report needs of a line. */
export interface Line {
  /** Without its query; `-` when the request is not of HTTP's form, as with probes that speak TLS to a plain port. */
  path: string;
  status: number;
  /** Size of the response without its head; the format's `-` means none. */
  bytes: number;
}

// White space is ASCII's; what stands between two delimiters may have them behind a backslash.
const WORD = String.raw`[ \t\f\r]*([^ \t\f\r]+)(?=[ \t\f\r]|$)`;
const TIME = String.raw`[ \t\f\r]*\[(?:\\.|[^\\\]])*\]`;
const REQUEST = String.raw`[ \t\f\r]*"((?:\\.|[^\\"])*)"`;
const LINE = new RegExp(`^${WORD}${WORD}${WORD}${TIME}${REQUEST}${WORD}${WORD}`);

/** `null` when the line is not of this format. */
export function parse(text: string): Line | null {
  const parts = LINE.exec(text);
  if (!parts) return null;
  const [, , , , request, status, bytes] = parts as unknown as string[];
  const line = { path: path(request!), status: count(status!), bytes: bytes === "-" ? 0 : count(bytes!) };
  return line.status >= 100 && line.status < 1000 && Number.isSafeInteger(line.bytes) ? line : null;
}

/** The path of `GET /a?b HTTP/1.1`. */
function path(request: string): string {
  const [, target, protocol, ...more] = request.split(" ");
  if (!target || protocol === undefined || more.length > 0) return "-";
  return target.split("?", 1)[0]!;
}

function count(digits: string): number {
  return /^[0-9]+$/.test(digits) ? Number(digits) : NaN;
}
