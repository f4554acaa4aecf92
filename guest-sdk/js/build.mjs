// Builds a plugin: node build.mjs ENTRY -o PLUGIN.wasm
//
// ENTRY is a module of JavaScript or TypeScript whose default export is a handler. It and all it imports become one
// script (esbuild), and that becomes a component with an engine inside (componentize-qjs).

import { existsSync } from "node:fs";
import { mkdir, rename, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { componentize } from "componentize-qjs";
import { build } from "esbuild";

const sdk = dirname(fileURLToPath(import.meta.url));

const { values, positionals } = parseArgs({
  options: { output: { type: "string", short: "o" } },
  allowPositionals: true,
});
if (positionals.length !== 1 || !values.output) {
  console.error("usage: node build.mjs ENTRY -o PLUGIN.wasm");
  process.exit(2);
}

const script = await bundle(resolve(positionals[0]));
const { component } = await componentize({
  jsSource: script,
  witPath: contract(),
  world: "job",
  // The contract is synchronous.
  sync: true,
  // WASI stays: the clock is read through it. The host denies what it has not granted.
  stubWasi: false,
});
await put(resolve(values.output), component);

/** All of the plugin in one module, in the engine's dialect. */
async function bundle(entry) {
  const wanted = { contents: whole(entry), resolveDir: sdk, sourcefile: "plugin.js" };
  const result = await build({
    stdin: wanted,
    bundle: true,
    write: false,
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
    logLevel: "warning",
  }).catch(() => process.exit(1)); // esbuild has said why
  return result.outputFiles[0].text;
}

function whole(entry) {
  return `
    import "./guest/globals.js";
    import { serve } from "./guest/serve.js";
    import plugin from ${JSON.stringify(entry)};
    export const handler = serve(plugin);
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
