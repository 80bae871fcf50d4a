// Why a result has its score: the parts as a stacked bar, each with words, and the weights that multiply them.

import { el } from "./dom.js";
import { number, percent } from "./text.js";

const PARTS = {
  words: ["words", "it has words of the question, and rare ones count more"],
  meaning: ["meaning", "it means something similar"],
  neighbors: ["neighbors", "the turns just before and after also match"],
  session: ["session", "other parts of its session match, and where in the session it is"],
  author: ["author", "the question names who said it, or is about its author"],
  kind: ["kind", "a statement, a question, a prompt, or the output of a tool"],
  time: ["time", "the question asks for a time or a number, and it has one"],
  newness: ["newness", "how new it is among what matches"],
  length: ["length", "how long it is"],
};
const WEIGHTS = {
  relevance: ["relevance", "the combined score, normalized to 0–100% across all candidates"],
  tool: ["output of tools", "what a tool printed weighs less than what somebody said"],
  echo: ["asks the same", "a question is no answer to itself"],
  confidence: ["confidence", "the remaining confidence of a lesson; half of the score depends on it"],
  recency: ["recency", "mixed in because a half-life was asked for"],
};

/** A bar as long as the score, the legend of its parts, and what they were multiplied by. */
export function scoreBar(result) {
  const parts = Object.keys(PARTS).map((name) => [name, result.explain[name] ?? 0]);
  const plus = parts.filter(([, value]) => value > 0.005);
  const total = plus.reduce((sum, [, value]) => sum + value, 0) || 1;
  const words = plus.map(([name, value]) => `${PARTS[name][0]} ${percent(value / total)}`).join(", ");
  const bar = el("div", { class: "bar", role: "img", "aria-label": `Score ${percent(result.score)}: ${words}` });
  for (const [name, value] of plus) {
    const piece = el("span", { class: `part ${name}`, title: `${PARTS[name][0]}: ${number(value)}` });
    piece.style.width = `${Math.max(0, Math.min(1, result.score)) * (value / total) * 100}%`;
    bar.append(piece);
  }
  return bar;
}

/** The same as a table that can be read. */
export function scoreTable({ explain, score, kind }) {
  const parts = Object.entries(PARTS).filter(([name]) => Math.abs(explain[name] ?? 0) > 0.005);
  const weights = Object.entries(WEIGHTS).filter(
    ([name]) => explain[name] !== undefined && (name === "relevance" || explain[name] < 0.995),
  );
  return el(
    "table",
    { class: "score" },
    el("caption", {}, `Score ${percent(score)}`),
    el(
      "tbody",
      {},
      parts.map(([name, [title, words]]) =>
        row(el("span", { class: `swatch ${name}` }), title, signed(explain[name]), words),
      ),
    ),
    el(
      "tbody",
      {},
      weights.map(([name, [title, words]]) => row("×", title, percent(explain[name]), words)),
      kind === "memory" &&
        explain.importance !== 5 &&
        row(
          "×",
          "importance",
          percent(1 + 0.02 * (explain.importance - 5)),
          "2 % for each step of importance above or below 5",
        ),
      kind === "summary" && row("×", "summary", "50 %", "who said it comes before a summary of it"),
    ),
    el(
      "tbody",
      {},
      evidence(explain).map(([title, value, words]) => row("", title, value, words)),
    ),
  );
}

const row = (sign, title, value, words) =>
  el(
    "tr",
    {},
    el("td", {}, sign),
    el("th", { scope: "row" }, title),
    el("td", { class: "figure" }, value),
    el("td", { class: "quiet" }, words),
  );
const signed = (value) => `${value < 0 ? "−" : "+"}${number(Math.abs(value))}`;

function evidence({ cosine, static: quick }) {
  return [
    ["meaning", cosine, "cosine with the question, by the embedding model"],
    ["meaning, static", quick, "the same by static vectors, there as soon as it is written"],
  ]
    .filter(([, value]) => value !== undefined)
    .map(([title, value, words]) => [title, value.toFixed(2), words]);
}
