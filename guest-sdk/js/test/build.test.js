// What build.mjs makes of modules: where their errors lie, and what becomes of what they do while they are loaded.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

import { partsOf } from "../lines.mjs";
import { located, setParts } from "../src/stack.js";

const sdk = dirname(dirname(fileURLToPath(import.meta.url)));
const scratch = realpathSync(mkdtempSync(join(tmpdir(), "leasehold-build-")));
after(() => rmSync(scratch, { recursive: true }));

const HANDLER = 'import { handler } from "leasehold";\nexport default handler(() => 1);\n';
const THROWS = `interface Row {
  id: number;
}

export function first(rows: Row[] | null) {
    return rows!.length;
}
`;

/** A project of these files; returns its folder. */
function project(name, files) {
  const folder = join(scratch, name);
  for (const [path, text] of Object.entries({ "package.json": "{}", ...files })) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return folder;
}

function built(name, files) {
  const folder = project(name, files);
  const output = join(folder, "plugin.wasm");
  const command = [join(sdk, "build.mjs"), join(folder, "src/handler.ts"), "-o", output];
  const { status, stderr } = spawnSync(process.execPath, command, { encoding: "utf8" });
  return { status, stderr, isBuilt: existsSync(output) };
}

test("an error while a module is loaded fails the build by its name and the author's line", () => {
  const { status, stderr, isBuilt } = built("throws", {
    "src/handler.ts": `${HANDLER}import { first } from "./rows";\n\nfirst(null);\n`,
    "src/rows.ts": THROWS,
  });
  assert.deepEqual([status, isBuilt], [1, false]);
  assert.match(stderr, /^build\.mjs: loading the module failed, .* built\nTypeError: .*'length' of null\n/);
  assert.match(stderr, /\n {4}at first \(src\/rows\.ts:6:12\)\n {4}at <anonymous> \(src\/handler\.ts:5:\d+\)\n$/);
});

test("what a module logs while it is loaded is printed, and the plugin is built", () => {
  const { status, stderr, isBuilt } = built("logs", {
    "src/handler.ts": `${HANDLER}console.log("lo\\nading", { n: 7 });\n`,
  });
  assert.deepEqual([status, isBuilt], [0, true], stderr);
  assert.equal(stderr, "build.mjs: logged while the plugin is built: info: lo\nading n=7\n");
});

test("an error that a module logs while it is loaded is told by the author's line", () => {
  const { status, stderr } = built("caught", {
    "src/handler.ts": `${HANDLER}import { first } from "./rows";\n\ntry {\n  first(null);\n} catch (e) {\n  console.error("\u2028", e);\n}\n`,
    "src/rows.ts": THROWS,
  });
  assert.equal(status, 0, stderr);
  assert.match(stderr, /error: \u2028 TypeError: .*'length' of null\n {4}at first \(src\/rows\.ts:6:12\)\n/);
});

test("what a module logs before it throws is printed before the error", () => {
  const { status, stderr, isBuilt } = built("dies", {
    "src/handler.ts": `${HANDLER}import { first } from "./rows";\nPromise.reject(new Error("lost"));\ntry {\n  first(null);\n} catch (e) {\n  console.error("rows:", new Error("start", { cause: e }));\n  throw e;\n}\n`,
    "src/rows.ts": `console.log("rows");\n${THROWS}`,
  });
  assert.deepEqual([status, isBuilt], [1, false]);
  const order = [
    /^build\.mjs: logged while the plugin is built: info: rows\n/,
    /\nbuild\.mjs: logged .*: error: rows: Error: start\n {4}at .*\(src\/handler\.ts:8:\d+\)\n/,
    /\)\ncaused by TypeError: .*'length' of null\n {4}at first \(src\/rows\.ts:7:12\)\n/,
    /\nbuild\.mjs: logged .*: error: a promise was rejected, and nothing handles it: Error: lost\n/,
    /\nbuild\.mjs: loading the module failed, .*\nTypeError: .*'length' of null\n {4}at first \(src\/rows\.ts:7:12\)\n/,
  ].map((pattern) => stderr.search(pattern));
  assert.ok(order[0] === 0 && order.every((at, n) => n === 0 || at > order[n - 1]), `${order}: ${stderr}`);
});

test("what cannot be bundled is said in the terms of this package", () => {
  const { status, stderr } = built("modules", {
    "src/handler.ts": `${HANDLER}import "node:fs";\nimport "odd";\nimport "leasehold/testing";\nimport "./a.wasm";\nimport "./b.js";\nimport "alien";\nawait 1;\n`,
    "src/a.wasm": "",
    "node_modules/alien/package.json": '{ "exports": { ".": { "node": "./index.js" } } }',
    "node_modules/alien/index.js": "",
    "src/b.js": "export default <a />;\n",
  });
  assert.equal(status, 1);
  for (const said of [
    /Could not resolve "node:fs"\n[^]*There are no modules of Node in a plugin/,
    /Could not resolve "odd"\n[^]*If the package is not installed yet/,
    /Could not resolve "leasehold\/testing"\n/,
    /A file whose name ends in \.wasm cannot be imported\n/,
    /src\/b\.js:1:\d+:\n[^]*JSX is read in files/,
    /ERROR\] `await` at the top of a module does not work: put it into the handler\n[^]*src\/handler\.ts:9:0:\n/,
  ]) {
    assert.match(stderr, said);
  }
  assert.doesNotMatch(stderr, /platform|external|loader|alias|conditions:|esbuild|es2023|Cannot read/);
});

test("a request while a module is loaded is refused where it stands", () => {
  const { status, stderr } = built("fetches", {
    "src/handler.ts": `${HANDLER}fetch("http://localhost/").catch(() => {});\n`,
  });
  assert.equal(status, 1);
  assert.match(stderr, /^Error: fetch: .*call it in the handler\n {4}at <anonymous> \(src\/handler\.ts:3:1\)$/m);
});

test("a module without a handler is told so, and nothing of how plugins are built", () => {
  const { status, stderr } = built("none", { "src/handler.ts": "export default 7;\n" });
  assert.equal(status, 1);
  assert.match(stderr, /^TypeError: the module's default export is no handler: .*\n$/m);
  assert.doesNotMatch(stderr, / at /);
});

/** The bundle of a project, and what lines.mjs says of it. */
async function bundled(folder) {
  const { outputFiles } = await build({
    entryPoints: [join(folder, "src/handler.ts")],
    outfile: join(folder, "bundle.js"),
    bundle: true,
    write: false,
    format: "esm",
    sourcemap: "external",
    external: ["leasehold"],
  });
  const [map, script] = outputFiles.map(({ text }) => text);
  const isOwn = (file) => file.endsWith("own.js");
  return { script, parts: partsOf(script, JSON.parse(map), { folder, root: folder, isOwn }) };
}

/** As the engine names a place: the one where `text` stands in the script. */
function at(script, text) {
  const lines = script.slice(0, script.indexOf(text)).split("\n");
  assert.ok(script.includes(text), text);
  return `componentize-qjs:user.js:${lines.length}:${lines.at(-1).length + 1}`;
}

test("a stack is led back to the files of the project, and packages", async () => {
  const folder = project("stack", {
    "src/handler.ts": `import { first } from "./rows";
import odd from "odd";
import "./own";
first(odd(null) as any, [].at(0));
`,
    "src/rows.ts": THROWS,
    "src/own.js": "globalThis.own();\n",
    "node_modules/odd/package.json": '{ "main": "lib/odd.js" }',
    "node_modules/odd/lib/odd.js": "// a comment\nexport default (value) => {\n\n  return value.odd;\n};\n",
  });
  const { script, parts } = await bundled(folder);
  setParts(JSON.stringify(parts));
  const stack = [
    "TypeError: at large",
    `    at first (${at(script, "rows.length")})`,
    "    at map (native)",
    `    at <anonymous> (${at(script, "value.odd")})`,
    `    at ${at(script, "[].at(0)")}`,
    `    at own (${at(script, "globalThis.own")})`,
    "    at next (native)",
    "",
  ].join("\n");
  assert.deepEqual(located(stack).split("\n"), [
    "TypeError: at large",
    "    at first (src/rows.ts:6:12)",
    "    at map (native)",
    "    at <anonymous> (node_modules/odd/lib/odd.js:4)",
    "    at src/handler.ts:4:25",
  ]);
  assert.equal(located("nothing of it\n"), "nothing of it\n");
  assert.ok(!JSON.stringify(parts).includes(scratch), JSON.stringify(parts));
});

test("what there is no room for keeps its file's name, and the project comes first", async () => {
  // No line follows from the one before.
  const long = Array.from({ length: 20_000 }, (_, n) => `f(${n});${"\n".repeat(1 + (n % 2))}`).join("");
  const folder = project("room", {
    "src/handler.ts": 'import "large";\nglobalThis.after();\n',
    "node_modules/large/index.js": long,
  });
  const { script, parts } = await bundled(folder);
  setParts(JSON.stringify(parts));
  assert.equal(located(at(script, "f(8001)")), "node_modules/large/index.js");
  assert.equal(located(at(script, "globalThis.after")), "src/handler.ts:2:1");
  assert.ok(JSON.stringify(parts).length < 1000);
});

test("neighbours of the same name outside of the project keep their own lines", async () => {
  const folder = project("app", { "src/handler.ts": 'import "../../one/index";\nimport "../../other/index";\n' });
  project("one", { "index.ts": "globalThis.one();\n" });
  project("other", { "index.ts": "// not here\n\n\nglobalThis.other();\n" });
  const { script, parts } = await bundled(folder);
  setParts(JSON.stringify(parts));
  assert.equal(located(at(script, "globalThis.one")), "index.ts:1:1");
  assert.equal(located(at(script, "globalThis.other")), "index.ts:4:1");
});

test("a file outside of the project is shown by its name alone", async () => {
  const folder = project("outside", { "src/handler.ts": 'import "../../elsewhere";\n' });
  writeFileSync(join(scratch, "elsewhere.ts"), "globalThis.far();\n");
  const { script, parts } = await bundled(folder);
  setParts(JSON.stringify(parts));
  assert.equal(located(at(script, "globalThis.far")), "elsewhere.ts:1:1");
});
