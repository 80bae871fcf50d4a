// Figures, times and names as people read them. Pure.

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
const DATE = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const TIME = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/** "3 hours ago", of an ISO time. */
export function ago(iso, now = Date.now()) {
  const seconds = (Date.parse(iso) - now) / 1000;
  if (Math.abs(seconds) < 5) return "just now";
  const [size, unit] = UNITS.findLast(([least]) => Math.abs(seconds) >= least) ?? UNITS[0];
  return AGO.format(Math.trunc(seconds / size), unit);
}

/** The time of day, and the date before it unless that is today's. */
export function clock(iso) {
  const [at, today] = [new Date(iso), new Date()];
  return at.toDateString() === today.toDateString() ? CLOCK.format(at) : `${DATE.format(at)}, ${CLOCK.format(at)}`;
}

export const when = (iso) => TIME.format(new Date(iso));
export const number = (value) => NUMBER.format(value);
export const percent = (share) => `${Math.round(share * 100)} %`;
/** A confidence by its word and its number, which is never rounded up to 100 %. */
export const inWords = ({ certainty, confidence }) => `${certainty}, ${percent(Math.min(0.99, confidence))} confidence`;

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

/** A text as one line, at most so many characters. */
export function shortened(text, limit = 160) {
  const line = (text ?? "").trim().replace(/\s+/g, " ");
  return line.length > limit ? `${line.slice(0, limit - 1).trimEnd()}…` : line;
}

/** A heading, and what there is to say beneath it: nothing where the title only is the text's beginning. */
export function headed(title, text, limit = 240) {
  const plain = (words) => words.replace(/\s+/g, " ").replace(/…$/, "").trim();
  return !title || plain(text).startsWith(plain(title)) ? [shortened(text || title, limit), ""] : [title, text];
}

/** A project as it is shown; the nameless one has no name. */
export const projectName = (project) => (project === "" ? "(no project)" : project);

/** Whether one of the texts has the words in it, whatever their case. */
export const says = (words, ...texts) => texts.join("\n").toLowerCase().includes(words.toLowerCase());

/** Words separated by commas, as a list. */
export const listed = (text) =>
  text
    .split(",")
    .map((word) => word.trim())
    .filter(Boolean);
