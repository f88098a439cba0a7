// Makes the npm packages: `posthaste`, which starts the program, and one for each platform, which
// has it. npm installs the one that fits.
//
//   node deploy/npm/build.mjs dist                          all platforms, of GoReleaser's dist/
//   node deploy/npm/build.mjs --program bin/posthaste OUT   this platform only, of one program
//
// The packages are in dist/npm or OUT: publish each with `npm publish --access public DIRECTORY`,
// the platforms first. `npm pack` makes tarballs to try.
import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const names = Object.fromEntries(
  readFileSync(join(here, "../names.env"), "utf8")
    .split("\n")
    .filter((line) => /^[A-Z]/.test(line))
    .map((line) => line.split("=")),
);
const platforms = { linux: "linux", darwin: "darwin", windows: "win32" };
const architectures = { amd64: "x64", arm64: "arm64" };

// programs returns what to package: {platform, architecture, file}, and the version.
function programs(args) {
  if (args[0] === "--program" && args.length === 3) {
    const version = JSON.parse(execFileSync(args[1], ["version", "--output", "json"], { encoding: "utf8" })).version;
    return { out: args[2], version, found: [{ platform: process.platform, architecture: process.arch, file: args[1] }] };
  }
  if (args.length !== 1) throw new Error("give GoReleaser's directory, or --program FILE and a directory to write to");
  const dist = args[0];
  const { version } = JSON.parse(readFileSync(join(dist, "metadata.json"), "utf8"));
  const found = JSON.parse(readFileSync(join(dist, "artifacts.json"), "utf8"))
    .filter((a) => a.type === "Binary" && a.goos in platforms && a.goarch in architectures)
    .map((a) => ({ platform: platforms[a.goos], architecture: architectures[a.goarch], file: a.path }));
  return { out: join(dist, "npm"), version, found };
}

function write(directory, manifest, files) {
  rmSync(directory, { recursive: true, force: true });
  for (const [name, from, mode] of files) {
    mkdirSync(dirname(join(directory, name)), { recursive: true });
    copyFileSync(from, join(directory, name));
    chmodSync(join(directory, name), mode);
  }
  writeFileSync(join(directory, "package.json"), JSON.stringify(manifest, null, 2) + "\n");
}

const { out, version, found } = programs(process.argv.slice(2));
const common = { version, license: "Apache-2.0", repository: { type: "git", url: `git+${names.REPOSITORY}.git` } };
const root = join(here, "../..");
const optionalDependencies = {};
for (const { platform, architecture, file } of found) {
  const name = `@posthaste/${platform}-${architecture}`;
  optionalDependencies[name] = version;
  write(
    join(out, `${platform}-${architecture}`),
    { name, ...common, description: `Posthaste for ${platform} on ${architecture}`, os: [platform], cpu: [architecture] },
    [
      [`bin/posthaste${platform === "win32" ? ".exe" : ""}`, file, 0o755],
      ["LICENSE", join(root, "LICENSE"), 0o644],
    ],
  );
}
write(
  join(out, "posthaste"),
  {
    name: names.NPM,
    ...common,
    description: "HTTP message delivery with durable workflows, self-hosted. Speaks the QStash protocol.",
    bin: { posthaste: "posthaste.cjs" },
    engines: { node: ">=18" },
    optionalDependencies,
  },
  [
    ["posthaste.cjs", join(here, "posthaste.cjs"), 0o755],
    ["README.md", join(root, "README.md"), 0o644],
    ["LICENSE", join(root, "LICENSE"), 0o644],
  ],
);
console.log(`${found.length + 1} packages in ${out}`);
