// How a result was scored: the parts as a stacked bar with labels, and the weights that multiply them.

import { el } from "./dom.js";
import { number, percent } from "./text.js";

const PARTS = {
  words: ["words", "contains words of the question; rare words count more"],
  meaning: ["meaning", "similar in meaning"],
  neighbors: ["neighbors", "the turns just before and after it also match"],
  session: ["session", "other parts of its session match; also its position in the session"],
  author: ["author", "the question names its author, or is about them"],
  kind: ["kind", "a statement, a question, a prompt, or tool output"],
  time: ["time", "the question asks for a time or a number, and it contains one"],
  newness: ["newness", "its age compared with the other matches"],
  length: ["length", "its length"],
};
const WEIGHTS = {
  relevance: ["relevance", "the combined score, normalized to 0–100% across all candidates"],
  tool: ["tool output", "tool output weighs less than what a person or an agent wrote"],
  echo: ["repeats the question", "a question does not answer itself"],
  confidence: ["confidence", "the remaining confidence of a lesson; half of the score depends on it"],
  recency: ["recency", "included because the request has a half-life"],
};

/** The legend for the bar colors that occur in the results. */
export const legend = (results) =>
  el(
    "p",
    { class: "legend" },
    el("span", {}, "Score:"),
    Object.entries(PARTS)
      .filter(([name]) => results.some(({ explain }) => explain[name] > 0.005))
      .map(([name, [title, words]]) => el("span", { title: words }, el("span", { class: `swatch ${name}` }), ` ${title}`)),
  );

/** A bar as long as the score, the legend of its parts, and their multipliers. */
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

/** The same data as an accessible table. */
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
          "2% for each step of importance above or below 5",
        ),
      kind === "summary" && row("×", "summary", "50%", "original turns rank before summaries"),
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
    ["meaning, static", quick, "the same by static vectors, available as soon as it is written"],
  ]
    .filter(([, value]) => value !== undefined)
    .map(([title, value, words]) => [title, value.toFixed(2), words]);
}
