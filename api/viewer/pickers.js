// The pickers for the project and for the agent to read as; both are part of the URL.

import { el, fill } from "./dom.js";
import { knownAgents, knownProjects } from "./names.js";
import { change, current } from "./route.js";
import { projectName } from "./text.js";
import { buttons } from "./parts.js";

const ALL = "all";
const OTHER = "other";
const NAMED = "=";
const project = document.getElementById("project");
const agent = document.getElementById("agent");

/** Draws both pickers from the URL; an unknown name is added to the options. */
export function drawPickers() {
  const now = current();
  draw(
    project,
    [[ALL, "All projects"], ...options(knownProjects(), now.project, projectName)],
    now.project === null ? ALL : NAMED + now.project,
  );
  draw(
    agent,
    [[ALL, "public only"], ...options(knownAgents(), now.agent || null, String)],
    now.agent ? NAMED + now.agent : ALL,
  );
}

function options(known, chosen, words) {
  const names = chosen === null || known.includes(chosen) ? known : [...known, chosen].sort();
  return [...names.map((name) => [NAMED + name, words(name)]), [OTHER, "Another…"]];
}

function draw(picker, choices, chosen) {
  if (picker === document.activeElement && picker.dataset.choices === JSON.stringify(choices)) return;
  picker.dataset.choices = JSON.stringify(choices);
  fill(
    picker,
    choices.map(([value, words]) => el("option", { value }, words)),
  );
  picker.value = chosen;
}

/** Asks for a name that is not in the list; null if the dialog was dismissed. */
function named(what) {
  return new Promise((resolve) => {
    const input = el("input", { required: true, maxlength: 512, "aria-label": what });
    const dialog = el(
      "dialog",
      {},
      el(
        "form",
        { method: "dialog" },
        el("h2", {}, what),
        input,
        buttons(
          el("button", { class: "primary", value: "use" }, "Use it"),
          el("button", { value: "", formnovalidate: true }, "Cancel"),
        ),
      ),
    );
    dialog.addEventListener("close", () => {
      resolve(dialog.returnValue === "use" ? input.value : null);
      dialog.remove();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

function watch(picker, name, what) {
  picker.addEventListener("change", async () => {
    if (picker.value === ALL) change({ [name]: null });
    else if (picker.value !== OTHER) change({ [name]: picker.value.slice(NAMED.length) });
    else {
      const given = await named(what);
      if (given === null) drawPickers();
      else change({ [name]: given });
    }
  });
}

watch(project, "project", "Name of the project");
watch(agent, "agent", "Name of the agent");
