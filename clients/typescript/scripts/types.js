// Prints src/openapi.ts: the types of the routes that the client calls, from the OpenAPI document on standard input.
//
//     make types

import { text } from "node:stream/consumers";

import openapiTS, { astToString } from "openapi-typescript";

const NOUNS = new Set([
  "actions", "agents", "confirm", "context", "events", "feedback", "forget", "frontier", "lessons", "live", "memories",
  "observations", "projects", "recall", "sessions", "slots", "timeline",
]);
const HEADER = `// Made by \`make types\` from the server's OpenAPI document. Do not edit.

`;

/** The document without other routes, refusals, and headers: errors.ts reads refusals, client.ts writes headers. */
function narrowed(document) {
  const paths = {};
  for (const [path, operations] of Object.entries(document.paths)) {
    const [, version, noun] = path.split("/");
    if (path !== "/readyz" && !(version === "v1" && NOUNS.has(noun))) continue;
    for (const operation of Object.values(operations)) {
      operation.parameters = (operation.parameters ?? []).filter((one) => one.in !== "header");
      for (const status of Object.keys(operation.responses)) {
        if (Number(status) >= 300) delete operation.responses[status];
        else delete operation.responses[status].headers;
      }
    }
    paths[path] = operations;
  }
  const schemas = document.components.schemas;
  const used = Object.fromEntries([...names(paths, schemas)].sort().map((name) => [name, schemas[name]]));
  return { openapi: document.openapi, info: document.info, paths, components: { schemas: used } };
}

/** The schemas that `value` refers to, and those that they refer to. */
function names(value, schemas, found = new Set()) {
  for (const [, name] of JSON.stringify(value).matchAll(/#\/components\/schemas\/([^"]+)/g)) {
    if (found.has(name)) continue;
    found.add(name);
    names(schemas[name], schemas, found);
  }
  return found;
}

const ast = await openapiTS(narrowed(JSON.parse(await text(process.stdin))), {
  alphabetize: true,
  defaultNonNullable: false,
  emptyObjectsUnknown: true,
});
process.stdout.write(HEADER + astToString(ast));
