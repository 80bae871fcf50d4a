/**
 * Files on memories: the commands of Anthropic's memory tool, for any agent.
 *
 * A file is a memory with its path as the title and, after `file:`, as a tag, that supersedes nothing. No other memory is
 * a file, whatever its tags are. A change is a new version of the memory, and deleting forgets it. A directory exists
 * while a file is in it. Answers and errors have the texts of Anthropic's documentation; the Python client's module has
 * the same rules.
 */

import type { Accepted, Memory } from "./answers.ts";
import type { OfMemory } from "./fields.ts";
import type { Memories } from "./nouns.ts";

const ROOT = "/memories";
const MARK = "file:";
/** The tag of a file without any text has its whitespace as JSON, because the server refuses blank content. */
const BLANK_TEXT = /^blank:("(?:[^\S\x00-\x1f]|\\[bfnrt]|\\u[0-3f][\da-f]{3})*")$/m;
/** A tag has at most 512 characters. */
const LONGEST_PATH = 500;
const MOST_LINES = 999_999;
/** Lines before and after a change that are shown with it. */
const AROUND = 2;
const TRAVERSAL = /(^|[/\\])\.\.?([/\\]|$)|%2e|%2f|%5c|\\|[\x00-\x1f]/i;

type Stored = Map<string, Memory[]>;

/** A command cannot be carried out; the message is the answer for the model. */
export class FileError extends Error {}

export interface FilesOptions {
  /** Each command lists the project, so use one that has only files; `memory-files` unless given. */
  readonly project?: string | undefined;
  /** Of new files, such as `visibility`. */
  readonly fields?: OfMemory | undefined;
  /** Gets the path and the receipt of each deletion: the server's acknowledgement. */
  readonly onDeleted?: ((path: string, receipt: Accepted) => void) | undefined;
}

/** The files of one project. Commands reject with a FileError or a MnemologError. */
export class MemoryFiles {
  readonly #memories: Memories;
  readonly #project: string;
  readonly #options: FilesOptions;

  constructor(client: { readonly memories: Memories }, options: FilesOptions = {}) {
    this.#memories = client.memories;
    this.#project = options.project ?? "memory-files";
    this.#options = options;
  }

  /** The lines of a file, or of a part of it; or the files of a directory, up to two levels deep. */
  async view(path: string, viewRange?: readonly number[] | null): Promise<string> {
    const at = checked(path);
    const files = await this.#files();
    const file = files.get(at)?.[0];
    if (file !== undefined) return linesOf(path, textOf(file), viewRange);
    const inside = [...files].filter(([name]) => isIn(name, at));
    if (inside.length === 0 && at !== ROOT) fail(`The path ${path} does not exist. Please provide a valid path.`);
    const size = ([found]: Memory[]): number => new TextEncoder().encode(textOf(found!)).length;
    return treeOf(at, inside.map(([name, found]) => [name.slice(at.length), size(found)]));
  }

  /** Write a new file. */
  async create(path: string, text: string): Promise<string> {
    const at = checked(path);
    const files = await this.#files();
    if (at === ROOT || [...files.keys()].some((name) => isAt(name, at))) fail(`Error: File ${path} already exists`);
    checkParents(at, files);
    const { content, ...stored } = fieldsOf(at, text, this.#options.fields?.tags ?? []);
    const fields = { ...this.#options.fields, project: this.#project, keep_duplicates: true, ...stored };
    await this.#memories.create(content, fields);
    return `File created successfully at: ${path}`;
  }

  /** Replace the only occurrence of a text in a file. */
  async strReplace(path: string, oldText: string, newText: string): Promise<string> {
    const file = (await this.#files()).get(checked(path))?.[0];
    if (file === undefined) fail(`Error: The path ${path} does not exist. Please provide a valid path.`);
    const text = textOf(file);
    const starts: number[] = [];
    for (let at = text.indexOf(oldText); oldText && at >= 0; at = text.indexOf(oldText, at + 1)) starts.push(at);
    const lineOf = (start: number): number => text.slice(0, start).split("\n").length;
    const [start] = starts;
    if (start === undefined) {
      fail(`No replacement was performed, old_str \`${oldText}\` did not appear verbatim in ${path}.`);
    }
    if (starts.length > 1) {
      const lines = starts.map(lineOf).join(", ");
      fail(
        `No replacement was performed. Multiple occurrences of old_str \`${oldText}\` in lines: ${lines}. ` +
          "Please ensure it is unique",
      );
    }
    const changed = text.slice(0, start) + newText + text.slice(start + oldText.length);
    await this.#memories.revise(file.id, fieldsOf(checked(path), changed, file.tags));
    const first = Math.max(1, lineOf(start) - AROUND);
    return (
      "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n" +
      numbered(changed.split("\n").slice(first - 1, lineOf(start) + AROUND), first)
    );
  }

  /** Add lines after a line of a file; 0 is its beginning. */
  async insert(path: string, line: number, text: string): Promise<string> {
    const file = (await this.#files()).get(checked(path))?.[0];
    if (file === undefined) fail(`Error: The path ${path} does not exist`);
    const lines = textOf(file) ? textOf(file).replace(/\n$/, "").split("\n") : [];
    if (!Number.isInteger(line) || line < 0 || line > lines.length) {
      fail(
        `Error: Invalid \`insert_line\` parameter: ${line}. ` +
          `It should be within the range of lines of the file: [0, ${lines.length}]`,
      );
    }
    lines.splice(line, 0, text.replace(/\n+$/, ""));
    const content = `${lines.join("\n").replace(/\n$/, "")}\n`;
    await this.#memories.revise(file.id, fieldsOf(checked(path), content, file.tags));
    return `The file ${path} has been edited.`;
  }

  /** Forget a file, or all files of a directory, with their earlier versions. */
  async delete(path: string): Promise<string> {
    const at = checked(path);
    if (at === ROOT) fail("Error: Cannot delete the /memories directory itself");
    let gone = below(await this.#files(), at);
    if (gone.length === 0) fail(`Error: The path ${path} does not exist`);
    while (gone.length > 0) { // deleting a version by one agent makes that of another current
      for (const [name, { id }] of gone) {
        const receipt = await this.#memories.delete(id, { reason: `the memory tool deleted ${name}`.slice(0, 500) });
        this.#options.onDeleted?.(name, receipt);
      }
      gone = below(await this.#files(), at);
    }
    return `Successfully deleted ${path}`;
  }

  /** Give a file, or a directory with all its files, another path. Nothing is changed if a new path is refused. */
  async rename(oldPath: string, newPath: string): Promise<string> {
    const [from, to] = [checked(oldPath), checked(newPath)];
    if (from === ROOT) fail("Error: Cannot rename the /memories directory itself");
    const files = await this.#files();
    const moved = below(files, from);
    if (moved.length === 0) fail(`Error: The path ${oldPath} does not exist`);
    if (to === ROOT || [...files.keys()].some((name) => isAt(name, to))) {
      fail(`Error: The destination ${newPath} already exists`);
    }
    if (isIn(to, from)) fail(`Error: Cannot rename ${oldPath} to a path inside itself`);
    checkParents(to, files);
    const changes = moved.map(([name, memory]) => {
      return { id: memory.id, fields: fieldsOf(checked(to + name.slice(from.length)), textOf(memory), memory.tags) };
    });
    for (const { id, fields } of changes.reverse()) { // the newest of a path stays the newest
      await this.#memories.revise(id, fields);
    }
    return `Successfully renamed ${oldPath} to ${newPath}`;
  }

  /** The files by path; of two that were created at the same moment, the newest is first. */
  async #files(): Promise<Stored> {
    const files: Stored = new Map();
    for await (const memory of this.#memories.list({ project: this.#project, latest: true, pageSize: 1_000 })) {
      const path = memory.title;
      if (memory.keep_duplicates && isIn(path, ROOT) && memory.tags.includes(MARK + path)) {
        files.set(path, [...(files.get(path) ?? []), memory]);
      }
    }
    return files;
  }
}

/** The path without a slash at its end; throws FileError for one that is not below the root. */
function checked(path: string): string {
  if (path !== ROOT && !path.startsWith(`${ROOT}/`)) fail(`Error: Path must start with /memories, got: ${path}`);
  if (TRAVERSAL.test(path)) fail(`Error: Path ${path} would escape /memories directory`);
  if (path.length > LONGEST_PATH) fail(`Error: A path has at most ${LONGEST_PATH} characters`);
  return path.normalize("NFC").replace(/\/+/g, "/").replace(/\/$/, ""); // tags are stored in this form
}

function checkParents(path: string, files: Stored): void {
  const parent = [...files.keys()].find((name) => isIn(path, name));
  if (parent !== undefined) fail(`Error: ${parent} is a file, not a directory`);
}

/** The file of a path, and those of a directory, with their paths. */
function below(files: Stored, path: string): [string, Memory][] {
  const found = [...files].filter(([name]) => isAt(name, path));
  return found.flatMap(([name, memories]) => memories.map((memory): [string, Memory] => [name, memory]));
}

function isIn(path: string, directory: string): boolean {
  return path.startsWith(`${directory}/`);
}

function isAt(path: string, place: string): boolean {
  return path === place || isIn(path, place);
}

/** What is stored of a file; `tags` are those that it has. */
function fieldsOf(path: string, text: string, tags: readonly string[]) {
  const blank = text.trim() ? [] : ["blank:" + JSON.stringify(text)];
  const others = tags.filter((tag) => !/^(file|blank):/.test(tag));
  return { content: blank.length > 0 ? "(empty file)" : text, title: path, tags: [MARK + path, ...blank, ...others] };
}

function textOf({ content, tags }: Memory): string {
  const [, blank] = BLANK_TEXT.exec(tags.join("\n")) ?? [];
  return blank ? JSON.parse(blank) : content;
}

function linesOf(path: string, text: string, range: readonly number[] | null | undefined): string {
  const lines = text.split("\n");
  if (lines.length > MOST_LINES) fail(`File ${path} exceeds maximum line limit of 999,999 lines.`);
  const [from = 1, to = -1] = range?.length === 2 ? range : [];
  const first = Math.max(1, from);
  const shown = lines.slice(first - 1, to === -1 ? undefined : to);
  return `Here's the content of ${path} with line numbers:\n${numbered(shown, first)}`;
}

/** Sizes and paths up to two levels deep; `files` are the rests of their paths with their sizes. */
function treeOf(directory: string, files: [string, number][]): string {
  const sizes = new Map([["", files.reduce((sum, [, size]) => sum + size, 0)]]);
  for (const [rest, size] of files) {
    const parts = rest.split("/").slice(1);
    if (parts.some((part) => part.startsWith(".") || part === "node_modules")) continue;
    for (let depth = 1; depth <= Math.min(parts.length, 2); depth += 1) {
      const name = `/${parts.slice(0, depth).join("/")}${depth < parts.length ? "/" : ""}`;
      sizes.set(name, (sizes.get(name) ?? 0) + size);
    }
  }
  const key = (name: string): string => name.replaceAll("/", "\0");
  const names = [...sizes.keys()].sort((one, other) => (key(one) < key(other) ? -1 : 1));
  return (
    `Here're the files and directories up to 2 levels deep in ${directory}, excluding hidden items and ` +
    `node_modules:\n${names.map((name) => `${sizeOf(sizes.get(name)!)}\t${directory}${name}`).join("\n")}`
  );
}

/** As `du -h` writes it: 512B, 1.5K, 2M. */
function sizeOf(count: number): string {
  let [size, unit] = [count, 0];
  for (; size >= 1024 && unit < 3; unit += 1) size /= 1024;
  return size.toFixed(1).replace(/\.0$/, "") + "BKMG"[unit];
}

function numbered(lines: readonly string[], first: number): string {
  return lines.map((line, index) => `${String(first + index).padStart(6)}\t${line}`).join("\n");
}

function fail(message: string): never {
  throw new FileError(message);
}
