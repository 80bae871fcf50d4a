// Formats numbers, times and names. Pure.

const UNITS = [
  [1, "second"],
  [60, "minute"],
  [3600, "hour"],
  [86400, "day"],
  [604800, "week"],
  [2629800, "month"],
  [31557600, "year"],
];
const AGO = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const NUMBER = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const HOUR = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const DAY = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long", year: "numeric" });
const WORD = /[\p{L}\p{N}_]+/gu;
const COMMON = new Set("the and for was were are that this with how what why when who which did does not can our you".split(" "));
const DATE = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const TIME = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/** "3 hours ago", from an ISO time. */
export function ago(iso, now = Date.now()) {
  const seconds = (Date.parse(iso) - now) / 1000;
  if (Math.abs(seconds) < 5) return "just now";
  const [size, unit] = UNITS.findLast(([least]) => Math.abs(seconds) >= least) ?? UNITS[0];
  return AGO.format(Math.trunc(seconds / size), unit);
}

/** The time of day, after the date unless that is today. */
export function clock(iso) {
  const [at, today] = [new Date(iso), new Date()];
  return at.toDateString() === today.toDateString() ? CLOCK.format(at) : `${DATE.format(at)}, ${CLOCK.format(at)}`;
}

export const day = (iso) => DAY.format(new Date(iso));

/** A range of times of day, with the date if the first is on another day. */
export function hours(from, until) {
  const [begin, end] = [new Date(from), new Date(until)];
  if (HOUR.format(begin) === HOUR.format(end) && begin.toDateString() === end.toDateString()) return HOUR.format(end);
  return `${begin.toDateString() === end.toDateString() ? "" : `${DATE.format(begin)}, `}${HOUR.format(begin)} to ${HOUR.format(end)}`;
}

export const when = (iso) => TIME.format(new Date(iso));
export const number = (value) => NUMBER.format(value);
export const percent = (share) => `${Math.round(share * 100)}%`;
/** Whether the subject is recorded, with a percentage that is never rounded up to 100%. */
export const inWords = ({ certainty, confidence }) => `${certainty} (${percent(Math.min(0.99, confidence))})`;

/** "1 memory", "3 memories". */
export function count(amount, one, many = `${one}s`) {
  return `${number(amount)} ${amount === 1 ? one : many}`;
}

export const mib = (size) => `${number(Math.round(size / 2 ** 20))} MiB`;

export function duration(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  const [size, unit] = [
    [86400, "d"],
    [3600, "h"],
    [60, "min"],
    [1, "s"],
  ].find(([least]) => seconds >= least);
  return `${number(seconds / size)} ${unit}`;
}

/** A text as one line of at most `limit` characters. */
export function shortened(text, limit = 160) {
  const line = (text ?? "").trim().replace(/\s+/g, " ");
  return line.length > limit ? `${line.slice(0, limit - 1).trimEnd()}…` : line;
}

/** A path or a name as one line, shortened at the beginning, because the end identifies a file. */
export function shortenedInFront(text, limit) {
  if (text.length <= limit) return text;
  const end = text.slice(1 - limit);
  return `…${end.slice(Math.max(0, end.slice(0, -8).indexOf("/")))}`;
}

/** A text in pieces, `[whether it is a word of the query, text]`; words with the same stem match. */
export function matches(text, query) {
  const words = (query.toLowerCase().match(WORD) ?? []).filter((word) => word.length > 2 && !COMMON.has(word));
  const alike = (a, b) => a === b || (Math.min(a.length, b.length) > 3 && stem(a) === stem(b));
  const pieces = [];
  let end = 0;
  for (const { 0: word, index } of text.matchAll(WORD)) {
    if (!words.some((asked) => alike(asked, word.toLowerCase()))) continue;
    if (index > end) pieces.push([false, text.slice(end, index)]);
    pieces.push([true, word]);
    end = index + word.length;
  }
  return [...pieces, ...(end < text.length ? [[false, text.slice(end)]] : [])];
}

const stem = (word) => word.replace(/(?:ies|ing|ed|es|s|e|y)$/, "");

/** A heading and the text below it; the text is empty if the title is only the beginning of the text. */
export function headed(title, text, limit = 240) {
  const plain = (words) => words.replace(/\s+/g, " ").replace(/…$/, "").trim();
  return !title || plain(text).startsWith(plain(title)) ? [shortened(text || title, limit), ""] : [title, text];
}

/** A project's display name. */
export const projectName = (project) => (project === "" ? "(no project)" : project);

/** Whether one of the texts contains the words, ignoring case. */
export const says = (words, ...texts) => texts.join("\n").toLowerCase().includes(words.toLowerCase());

/** Comma-separated words as a list. */
export const listed = (text) =>
  text
    .split(",")
    .map((word) => word.trim())
    .filter(Boolean);
