// Elements from plain calls. Text from the server becomes text nodes here, never markup.

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

/** An HTML element: attributes by name, `on...` a listener; null and false are left out. */
export function h(tag, attributes, ...children) {
  return furnish(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes, ...children) {
  return furnish(document.createElementNS(SVG_NAMESPACE, tag), attributes, children);
}

function furnish(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child || child === 0));
  return node;
}

/** Replace what a container holds; the focus stays on the element with the same `data-key`. */
export function refill(container, ...children) {
  const active = document.activeElement;
  const key = container.contains(active) ? active.dataset.key : undefined;
  container.replaceChildren(...children.flat(Infinity).filter(Boolean));
  if (key) focusKey(container, key);
}

export function focusKey(container, key) {
  const target = container.querySelector(`[data-key="${CSS.escape(key)}"]`);
  target?.focus({ preventScroll: true });
}

export function button(text, onclick, attributes) {
  return h("button", { type: "button", onclick, ...attributes }, text);
}

export const buttons = (...list) => h("div", { class: "buttons" }, list);

/** Text that only screen readers get. */
export function unseen(text) {
  return h("span", { class: "hidden" }, text);
}

/** Say something through the page's live region. */
export function announce(text) {
  document.getElementById("live").textContent = text;
}

/** A line for what goes wrong; the same words are not read out twice. */
export function alertLine() {
  const node = h("p", { class: "notice", role: "alert", hidden: true });
  function say(text) {
    if (node.textContent === text) return;
    node.textContent = text;
    node.hidden = !text;
  }
  return { node, say };
}

/** Offer a value as a JSON file. */
export function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
