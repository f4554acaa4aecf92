// What the bundler says, in the terms of this package: it names options of its own that nobody can set here.

import { formatMessages } from "esbuild";

const TEXTS = [
  [/^Top-level await is not available.*/, "`await` at the top of a module does not work: put it into the handler"],
  [/^No loader is configured for "(.*)" files: .*/, "A file whose name ends in $1 cannot be imported"],
  // What it says of a path within a module that is this package.
  [/^Could not resolve ".*" \(originally "(.*)"\)$/, 'Could not resolve "$1"'],
];
const NOTES = [
  [/ is built into node\./, "There are no modules of Node in a plugin: README.md of leasehold says what there is."],
  [/^You can mark the path /, "If the package is not installed yet, `npm install` adds it."],
  [/ must be set to "jsx" /, "JSX is read in files whose name ends in .jsx or .tsx."],
  [/ using the alias feature, /, "A plugin imports `leasehold`, and nothing of what lies in it."],
];

/** Prints errors or warnings of the bundler. */
export async function printMessages(messages, kind) {
  const told = messages.filter(({ text }) => !text.startsWith("Cannot read directory ")).map(inOurTerms);
  const lines = await formatMessages(told, { kind, color: Boolean(process.stderr.isTTY) });
  process.stderr.write(lines.join(""));
}

function inOurTerms({ text, notes, ...message }) {
  const own = notes.flatMap((note) => {
    const said = NOTES.find(([pattern]) => pattern.test(note.text));
    if (said) return [{ text: said[1] }];
    return /\besbuild\b|You can (use|set) "/.test(note.text) ? [] : [note];
  });
  return { ...message, text: TEXTS.reduce((told, [pattern, ours]) => told.replace(pattern, ours), text), notes: own };
}
