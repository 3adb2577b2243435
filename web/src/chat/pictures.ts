// Files that somebody dropped, pasted or chose: pictures for the next question, a schema, a program, or exported conversations.
import { signal } from "@preact/signals";
import { importChats } from "../state/chats";
import { written } from "../state/program";
import { model } from "../state/server";
import { go, view } from "../shell/views";
import { shape } from "../state/settings";
import { indented } from "../text/json";

export interface Added {
  url: string;
  name: string;
}

export const added = signal<Added[]>([]);
export const refused = signal("");
export const noted = signal("");
export const dragged = signal(false); // something hangs over the page

const readAs = (file: File, how: "readAsDataURL" | "readAsText"): Promise<string> => new Promise((done, failed) => {
  const reader = new FileReader();
  reader.onload = () => done(String(reader.result));
  reader.onerror = () => failed(reader.error);
  reader[how](file);
});

async function takePicture(file: File): Promise<void> {
  if (model.value?.abilities && !model.value.abilities.vision) {
    refused.value = `${model.value.name} takes no pictures. Ask in words, or choose a model that sees.`;
    return;
  }
  added.value = [...added.value, { url: await readAs(file, "readAsDataURL"), name: file.name || "picture" }];
}

// One of these stands in every schema that says anything.
const schemaWords = ["$schema", "$ref", "type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf", "allOf", "not", "pattern", "patternProperties"];

async function takeJson(file: File): Promise<void> {
  const text = await readAs(file, "readAsText");
  const read = JSON.parse(text);
  if (read?.format === "espalier-chats/1") {
    noted.value = `${importChats(text)} conversations came in.`;
    return;
  }
  if (Array.isArray(read?.nodes)) {
    written.value = { ...written.value, program: text.trim() };
    go("program");
    return;
  }
  if (!read || !schemaWords.some((word) => Object.hasOwn(read, word))) {
    refused.value = `${file.name} is no JSON schema: it has neither "type" nor "properties", "enum", "anyOf" and the like. Nor is it a program, which has "nodes".`;
    return;
  }
  const lines = text.includes("\n") ? text.trim() : indented(text) ?? text;
  shape.value = { ...shape.value, kind: "json_schema", texts: { ...shape.value.texts, json_schema: lines } };
  noted.value = `Answers now have the form of ${file.name}. The view Form shows it.`;
}

// Whether there were any.
export async function takeFiles(files: Iterable<File>): Promise<boolean> {
  const given = [...files];
  if (given.length > 0) refused.value = noted.value = "";
  for (const file of given) {
    try {
      if (file.type.startsWith("image/")) await takePicture(file);
      else if (file.type === "application/json" || file.name.endsWith(".json")) await takeJson(file);
      else refused.value = `${file.name || "That"} is neither a picture nor JSON.`;
    } catch (failure) {
      refused.value = failure instanceof SyntaxError ? `${file.name} is no JSON: ${failure.message}` : (failure as Error).message;
    }
  }
  return given.length > 0;
}

// Files that are dropped anywhere or pasted belong to the chat, whichever view is open: else the browser would leave the page to show them.
export function watchFiles(): () => void {
  const take = (event: Event, files: FileList) => {
    event.preventDefault();
    if (view.value !== "chat") go("chat");
    void takeFiles(files);
  };
  const drag = (event: DragEvent) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    dragged.value = event.type === "dragover";
    if (event.type === "drop") take(event, event.dataTransfer.files);
  };
  const paste = (event: ClipboardEvent) => {
    if (event.clipboardData?.files.length) take(event, event.clipboardData.files);
  };
  const kinds = ["dragover", "dragleave", "drop"] as const;
  for (const kind of kinds) document.addEventListener(kind, drag);
  document.addEventListener("paste", paste);
  return () => {
    for (const kind of kinds) document.removeEventListener(kind, drag);
    document.removeEventListener("paste", paste);
  };
}
