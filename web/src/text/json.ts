// JSON as it is read: its own letters, with a line for each member. Numbers and escapes stay as they were written.

// Null where the text is not one JSON object or array.
export function indented(text: string): string | null {
  const json = text.trim();
  if (!/^[{[]/.test(json)) return null;
  try {
    JSON.parse(json);
  } catch {
    return null;
  }
  let out = "", depth = 0;
  for (const [piece] of json.matchAll(/"(?:[^"\\]|\\.)*"|[{[]\s*[}\]]|[^\s"{}[\],:]+|[{}[\],:]/g)) {
    const line = (): string => `\n${"  ".repeat(depth)}`;
    if (piece === "{" || piece === "[") {
      ++depth;
      out += piece + line();
    } else if (piece === "}" || piece === "]") {
      --depth;
      out += line() + piece;
    } else {
      out += piece === "," ? piece + line() : piece === ":" ? ": " : piece.length > 1 && /^[{[]/.test(piece) ? piece.replace(/\s+/g, "") : piece;
    }
  }
  return out;
}
