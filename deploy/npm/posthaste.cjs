#!/usr/bin/env node
// Runs the program that npm installed for this platform.
const { spawn } = require("node:child_process");

const name = `@posthaste/${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/posthaste${process.platform === "win32" ? ".exe" : ""}`);
} catch {
  console.error(
    `posthaste: the package ${name} is not installed. There are packages for Linux, macOS and Windows, x64 and arm64; ` +
      "npm leaves them out with --omit=optional. Otherwise build from source: see the README.",
  );
  process.exit(1);
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
// The terminal sends Ctrl-C to both; the program decides when it ends.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => signal !== "SIGINT" && child.kill(signal));
child.on("error", (error) => {
  console.error(`posthaste: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => (signal ? process.exit(1) : process.exit(code)));
