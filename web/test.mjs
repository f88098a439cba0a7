// Tests the rules of the console in Node.js: node test.mjs
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const directory = await mkdtemp(join(tmpdir(), "posthaste-console-"));
const outfile = join(directory, "rules.test.mjs");
await build({
  absWorkingDir: fileURLToPath(new URL(".", import.meta.url)),
  entryPoints: ["test/rules.test.ts"], outfile, bundle: true, platform: "node", format: "esm", logLevel: "warning",
});
const { status } = spawnSync(process.execPath, ["--test", outfile], { stdio: "inherit" });
await rm(directory, { recursive: true });
process.exit(status ?? 1);
