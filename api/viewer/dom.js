// Elements. Text is only ever set as text; nothing in the viewer parses markup.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. Properties that begin with `on` are listeners, the others attributes; true sets an empty attribute,
 * false, null and undefined set none. Children are nodes, texts, or arrays of them; null, undefined and false are left
 * out. */
export function el(tag, properties = {}, ...children) {
  return filled(document.createElement(tag), properties, children);
}

/** An SVG element; see `el`. */
export function svg(tag, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...nodes(children));
  return element;
}

/** Children in the form that `append` accepts. */
export function nodes(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

/** Replaces all children of an element. */
export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}
