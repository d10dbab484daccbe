// Builds src/ into the one file that ships with the package, with a hash of what it was made from.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const here = new URL(".", import.meta.url).pathname;
const out = join(here, "../src/mixlens/views/viewer/built");

function sources(folder) {
  return readdirSync(join(here, folder), { withFileTypes: true })
    .flatMap((entry) =>
      entry.isDirectory() ? sources(`${folder}/${entry.name}`) : [`${folder}/${entry.name}`],
    )
    .sort();
}

// tests/viewer/test_page.py computes the same hash: path, newline, content, for each source.
const hash = createHash("sha256");
for (const name of [...sources("src"), "build.mjs", "package.json"].sort()) {
  hash.update(`${name}\n`).update(readFileSync(join(here, name)));
}

await build({
  entryPoints: [join(here, "src/main.ts")],
  bundle: true,
  minify: true,
  charset: "utf8",
  format: "iife",
  globalName: "mixlensViewer",
  target: ["es2021"],
  loader: { ".css": "text" },
  banner: { js: `/* mixlens viewer, built from web/ ${hash.digest("hex")} */` },
  outfile: join(out, "viewer.js"),
});
const size = readFileSync(join(out, "viewer.js")).length;
writeFileSync(1, `viewer.js: ${(size / 1000).toFixed(1)} kB\n`);
