// Runs a plugin's tests with Node's own runner: node test.mjs FILE…
//
// The tests, JavaScript or TypeScript, are bundled first, so that they can import what the plugin imports. They run in the
// folder of the first of them.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

import { printMessages } from "./messages.mjs";

const sdk = dirname(fileURLToPath(import.meta.url));
const files = process.argv.slice(2).map((file) => resolve(file));
if (files.length === 0) {
  console.error("usage: node test.mjs FILE…");
  process.exit(2);
}

const scratch = mkdtempSync(join(tmpdir(), "leasehold-test-"));
try {
  const { warnings } = await build({
    entryPoints: files,
    bundle: true,
    outdir: scratch,
    outExtension: { ".js": ".mjs" },
    platform: "node",
    format: "esm",
    alias: { "leasehold/testing": join(sdk, "testing.js"), leasehold: join(sdk, "index.js") },
    sourcemap: "inline",
    logLevel: "silent",
  });
  await printMessages(warnings, "warning");
  const built = readdirSync(scratch, { recursive: true }).filter((name) => name.endsWith(".mjs"));
  const command = ["--enable-source-maps", "--test", ...built.map((name) => join(scratch, name))];
  process.exitCode = spawnSync(process.execPath, command, { stdio: "inherit", cwd: dirname(files[0]) }).status ?? 1;
} catch (error) {
  if (!error.errors) throw error;
  await printMessages(error.warnings, "warning");
  await printMessages(error.errors, "error");
  process.exitCode = 1;
} finally {
  rmSync(scratch, { recursive: true });
}
