// Making and changing elements. Text is always text: nothing here reads markup, so nothing that a
// user names can become any.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; `on*` attributes are listeners. */
export function el(tag, attributes = {}, ...children) {
  return dressed(document.createElement(tag), attributes, children);
}

/** The same in a picture. */
export function svg(tag, attributes = {}, ...children) {
  return dressed(document.createElementNS(SVG, tag), attributes, children);
}

function dressed(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export const byId = (id) => document.getElementById(id);

/** Write a text only where it differs: a selection in it, and a reader's place, are kept. */
export function say(node, text) {
  const wanted = String(text);
  if (node.textContent !== wanted) node.textContent = wanted;
}

export function show(node, isShown) {
  node.hidden = !isShown;
}

/** A length or a width in percent; style attributes are refused by the page's policy. */
export function stretch(node, ratio) {
  const width = `${Math.max(0, Math.min(100, ratio * 100)).toFixed(1)}%`;
  if (node.style.width !== width) node.style.width = width;
}

/** Bring the children of a list or a table's body to `rows`: those that are there are changed in
 *  place, so that focus stays where it is. `make` gives a node, `change` fills it. */
export function patch(parent, rows, make, change) {
  while (parent.children.length > rows.length) parent.lastElementChild.remove();
  while (parent.children.length < rows.length) parent.append(make());
  rows.forEach((row, at) => change(parent.children[at], row));
}

/** A row with empty cells, the numbers among them to the right. */
export function blankRow(...kinds) {
  return el("tr", {}, ...kinds.map((kind) => el("td", kind ? { class: kind } : {})));
}
