// node build.mjs [--check]: the page's sources -> built/page.html, one file without outside resources. The same sources
// give the same bytes. --check compares instead of writing. `make page` calls it; CMake embeds the result.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "built", "page.html");
const mostBytes = 300_000;

const filesBelow = (folder) =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? filesBelow(join(folder, entry.name)) : [join(folder, entry.name)]);

// What the page was made of, so that a stale one is recognised without node (tests/page/test_bundle.py).
function digestOfSources() {
  const hash = createHash("sha256");
  const names = [...filesBelow(join(here, "src")), ...["build.mjs", "package.json", "package-lock.json"].map((n) => join(here, n))];
  for (const name of names.map((n) => relative(here, n).replaceAll("\\", "/")).sort()) {
    hash.update(name + "\0").update(readFileSync(join(here, name))).update("\0");
  }
  return hash.digest("hex");
}

async function bundle() {
  const result = await build({
    absWorkingDir: here, entryPoints: ["src/main.tsx", "src/style/page.css"], bundle: true, minify: true, write: false,
    outdir: "built", format: "esm", target: "es2022", jsx: "automatic", jsxImportSource: "preact", charset: "utf8",
    legalComments: "none", loader: { ".woff2": "dataurl" },
  });
  const text = (name) => result.outputFiles.find((file) => file.path.endsWith(name)).text.trim();
  return { script: text("main.js"), style: text("page.css") };
}

const { script, style } = await bundle();
if (/<\/script/i.test(script) || (/<!--/.test(script) && /<script/i.test(script)) || /<\/style/i.test(style)) throw new Error("the bundle would end its own element");
const page = readFileSync(join(here, "src", "page.html"), "utf8")
  .replace("{{sources}}", () => digestOfSources()).replace("{{style}}", () => style).replace("{{script}}", () => script);
const bytes = Buffer.byteLength(page);
if (bytes >= mostBytes) throw new Error(`the page has ${bytes} bytes, but must have less than ${mostBytes}`);
if (process.argv.includes("--check")) {
  if (readFileSync(out, "utf8") !== page) {
    console.error("web/built/page.html is not what the sources give; run `make page` and commit it");
    process.exit(1);
  }
} else {
  writeFileSync(out, page);
}
console.log(`web/built/page.html: ${bytes} bytes`);
