// What models write, as elements. Text only ever becomes text: markup in it is shown, never obeyed.
import { Lexer, type Token, type Tokens } from "marked";
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { CopyButton } from "../shell/bits";
import { indented } from "./json";

const entities: Record<string, string> = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'" };
const plain = (text: string): string => text.replace(/&(?:amp|lt|gt|quot|#39);/g, (found) => entities[found]!);
const isSafe = (href: string): boolean => /^https?:\/\//i.test(href);

function inline(tokens: Token[] | undefined): ComponentChildren {
  return (tokens ?? []).map((token) => {
    switch (token.type) {
      case "strong": return <strong>{inline(token.tokens)}</strong>;
      case "em": return <em>{inline(token.tokens)}</em>;
      case "del": return <del>{inline(token.tokens)}</del>;
      case "codespan": return <code>{plain(token.text)}</code>;
      case "br": return <br />;
      case "link": return isSafe(token.href)
        ? <a href={token.href} target="_blank" rel="noreferrer noopener">{inline(token.tokens)}</a> : <>{token.raw}</>;
      case "image": return <>{token.raw}</>; // nothing is loaded from elsewhere
      case "escape": return <>{token.text}</>;
      default: return "tokens" in token && token.tokens ? inline(token.tokens) : <>{plain(token.raw)}</>;
    }
  });
}

function Item({ item }: { item: Tokens.ListItem }) {
  return (
    <li>
      {item.task && <input type="checkbox" checked={item.checked} disabled aria-label={item.checked ? "done" : "to do"} />}
      {blocks(item.tokens)}
    </li>
  );
}

function Table({ table }: { table: Tokens.Table }) {
  return (
    <div class="table" tabIndex={0} role="region" aria-label="Table">
      <table>
        <thead><tr>{table.header.map((cell) => <th>{inline(cell.tokens)}</th>)}</tr></thead>
        <tbody>{table.rows.map((row) => <tr>{row.map((cell) => <td>{inline(cell.tokens)}</td>)}</tr>)}</tbody>
      </table>
    </div>
  );
}

function Code({ language, text }: { language: string; text: string }) {
  return (
    <figure class="code">
      <figcaption><span>{language}</span><CopyButton text={text} /></figcaption>
      <pre tabIndex={0}><code>{text}</code></pre>
    </figure>
  );
}

function blocks(tokens: Token[]): ComponentChildren {
  return tokens.map((token) => {
    switch (token.type) {
      case "space": case "def": return null;
      case "paragraph": return <p>{inline(token.tokens)}</p>;
      case "text": return token.tokens ? <>{inline(token.tokens)}</> : <>{plain(token.raw)}</>;
      case "heading": {
        const Head = (token.depth <= 2 ? "h3" : "h4") as "h3";
        return <Head>{inline(token.tokens)}</Head>;
      }
      case "code": return <Code language={token.lang || "text"} text={token.text} />;
      case "list": return token.ordered
        ? <ol start={token.start || 1}>{(token as Tokens.List).items.map((item) => <Item item={item} />)}</ol>
        : <ul>{(token as Tokens.List).items.map((item) => <Item item={item} />)}</ul>;
      case "blockquote": return <blockquote>{blocks(token.tokens!)}</blockquote>;
      case "table": return <Table table={token as Tokens.Table} />;
      case "hr": return <hr />;
      default: return <p>{token.raw}</p>;
    }
  });
}

// An answer: JSON as JSON, also while it is written or where it was cut off; everything else as Markdown.
export function Answer({ text }: { text: string }) {
  const json = useMemo(() => indented(text) ?? (/^\{\s*"/.test(text) ? text : null), [text]);
  return json === null ? <Markdown text={text} /> : <div class="said"><Code language="json" text={json} /></div>;
}

export function Markdown({ text }: { text: string }) {
  const tokens = useMemo(() => new Lexer({ gfm: true, breaks: true }).lex(text), [text]);
  return <div class="said">{blocks(tokens)}</div>;
}
