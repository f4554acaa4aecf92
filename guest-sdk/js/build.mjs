// Builds a plugin: node build.mjs ENTRY -o PLUGIN.wasm
//
// ENTRY is a module of JavaScript or TypeScript whose default export is a handler. It and all it imports become one
// script (esbuild), and that becomes a component with an engine inside (componentize-qjs).

import { existsSync } from "node:fs";
import { mkdir, rename, writeFile } from "node:fs/promises";
import { dirname, isAbsolute, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { componentize } from "componentize-qjs";
import { build } from "esbuild";

import { partsOf } from "./lines.mjs";
import { printMessages } from "./messages.mjs";
import { located, setParts } from "./src/stack.js";

const sdk = dirname(fileURLToPath(import.meta.url));

const { values, positionals } = parseArgs({
  options: { output: { type: "string", short: "o" } },
  allowPositionals: true,
});
if (positionals.length !== 1 || !values.output) {
  console.error("usage: node build.mjs ENTRY -o PLUGIN.wasm");
  process.exit(2);
}

const entry = resolve(positionals[0]);
await put(resolve(values.output), await evaluated(await bundle(whole(entry))));

/** The component: the script is evaluated, and what that leaves in memory is kept. */
async function evaluated({ script, parts }) {
  try {
    return await componentized(`${script}\nleaseholdLoaded(${JSON.stringify(parts)});\n`);
  } catch (error) {
    const lines = logged(error);
    if (!lines) {
      await printLoggedBefore();
      setParts(parts);
      fail(error);
    }
    print(lines, parts);
  }
  return componentized(`${script}\nleaseholdLoaded(${JSON.stringify(parts)}, true);\n`).catch(fail);
}

/** What the module logged before it threw. It is evaluated again where that is caught, for only an error is told here. */
async function printLoggedBefore() {
  const { script, parts } = await bundle(watched(entry));
  await componentized(script).catch((error) => print(logged(error) ?? [], parts));
}

function print(lines, parts) {
  setParts(parts);
  for (const line of lines) console.error(`build.mjs: logged while the plugin is built: ${located(line)}`);
}

async function componentized(jsSource) {
  const { component } = await componentize({
    jsSource,
    witPath: contract(),
    world: "job",
    // The contract is synchronous.
    sync: true,
    // WASI stays: the clock is read through it. The host denies what it has not granted.
    stubWasi: false,
  });
  return component;
}

function logged({ message }) {
  const lines = /leasehold logged: (\[.*\])$/m.exec(message);
  return lines && JSON.parse(lines[1]);
}

/** Says what the module threw, and from which line of the author's. */
function fail({ message }) {
  const told = message.split(/: Failed to finish JavaScript module evaluation: /);
  if (told.length === 1) console.error(`build.mjs: ${located(message)}`);
  else console.error(`build.mjs: loading the module failed, which is done when the plugin is built\n${thrown(told[1])}`);
  return process.exit(1);
}

/** The engine says `Error`, whatever it is, and its message; then the stack does, by its name. */
function thrown(told) {
  const lines = located(told).trimEnd().split("\n");
  const frames = lines.findIndex((line) => line.startsWith("    at "));
  const titles = frames < 0 ? lines.length : frames;
  return lines.slice(titles % 2 === 0 ? titles / 2 : 0).join("\n");
}

/** The folder of a project, from which its files are named: the nearest with a package.json, or that of the entry. */
function project(entry) {
  for (let folder = dirname(entry); folder !== dirname(folder); folder = dirname(folder)) {
    if (existsSync(join(folder, "package.json"))) return folder;
  }
  return dirname(entry);
}

function isOwn(file) {
  const path = relative(sdk, file);
  return !path.startsWith("..") && !isAbsolute(path) && !path.startsWith("node_modules");
}

/** All of the plugin in one script, in the engine's dialect, and what leads its lines back to the author's, as JSON. */
async function bundle(contents) {
  const result = await build({
    stdin: { contents, resolveDir: sdk, sourcefile: "plugin.js" },
    bundle: true,
    write: false,
    // Only to name the files of its source map from here.
    outfile: join(sdk, "bundle.js"),
    sourcemap: "external",
    sourcesContent: false,
    format: "esm",
    target: "es2023",
    charset: "utf8",
    legalComments: "none",
    // Names are what an error's stack is read by.
    keepNames: true,
    alias: { leasehold: join(sdk, "index.js") },
    external: ["leasehold:*"],
    // Compiled down to Promise, which guest/promise.js replaces.
    supported: { "async-await": false, "async-generator": false, "for-await": false, "top-level-await": false },
    logLevel: "silent",
  }).catch(refuse);
  await printMessages(result.warnings, "warning");
  const [map, script] = [/\.map$/, /\.js$/].map((name) => result.outputFiles.find(({ path }) => name.test(path)).text);
  // A text, which takes the least room in the plugin.
  const parts = JSON.stringify(partsOf(script, JSON.parse(map), { folder: sdk, root: project(entry), isOwn }));
  return { script, parts };
}

async function refuse({ errors, warnings }) {
  await printMessages(warnings, "warning");
  await printMessages(errors, "error");
  process.exit(1);
}

function whole(entry) {
  return `
    import "./guest/load.js";
    import "./guest/globals.js";
    import { serve } from "./guest/serve.js";
    import plugin from ${JSON.stringify(entry)};
    export const handler = serve(plugin);
  `;
}

/** The same, where what the module throws is caught, and what it logged is thrown in its place. */
function watched(entry) {
  return `
    import "./guest/load.js";
    import "./guest/globals.js";
    import { serve } from "./guest/serve.js";
    export let handler;
    try {
      handler = serve(require(${JSON.stringify(entry)}).default);
    } catch (error) {
      leaseholdLoaded("[]");
      throw error;
    }
  `;
}

/** The folder of the contract: beside this one in a project, at the top of the repository there. */
function contract() {
  const known = [join(sdk, "../wit"), join(sdk, "../../wit")].find((folder) => existsSync(join(folder, "job.wit")));
  if (known) return known;
  console.error(`build.mjs: there is no wit/job.wit beside ${sdk}`);
  return process.exit(1);
}

/** By rename, so that a host that watches the folder never sees half of it. */
async function put(path, bytes) {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(`${path}.tmp`, bytes);
  await rename(`${path}.tmp`, path);
}
