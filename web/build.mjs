// Builds the console: node build.mjs [DIRECTORY]
// The same sources and the same lock file give the same bytes, which a test compares
// with those that are checked in.
import { build } from "esbuild";
import { copyFile, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const directory = process.argv[2] ?? join(here, "../internal/console/assets");

await mkdir(directory, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: { console: "src/main.tsx" },
  outdir: directory,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  logLevel: "warning",
});
for (const name of ["index.html", "icon.svg"]) {
  await copyFile(join(here, "src", name), join(directory, name));
}
