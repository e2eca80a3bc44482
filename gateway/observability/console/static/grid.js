// Rows of any number: only those in sight are elements.
const HEIGHT = 24;
// Browsers cut elements that are higher.
const MAX_PIXELS = 8_000_000;

export const showValue = (value) => value === null ? "NULL" : typeof value === "object" ? JSON.stringify(value) : String(value);

export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

export class Grid {
  constructor(holder) {
    this.holder = holder;
    holder.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(holder);
    this.clear();
  }

  clear() {
    this.columns = []; this.rows = [];
    this.holder.replaceChildren();
    this.body = null;
  }

  setColumns(columns) {
    this.columns = columns;
    const head = element("div", { className: "head" }, element("div", { className: "cell number" }, "#"),
      ...columns.map(({ name, type }) => element("div", { className: "cell", title: `${name}: ${type}` }, name, element("small", {}, type))));
    this.body = element("div", { className: "body" });
    this.holder.replaceChildren(element("div", { className: "grid" }, head, this.body));
    this.holder.scrollTop = 0;
  }

  append(rows) {
    for (const row of rows) this.rows.push(row);
    this.draw();
  }

  draw() {
    if (!this.body) return;
    const all = this.rows.length * HEIGHT, shown = Math.min(all, MAX_PIXELS);
    this.body.style.height = `${shown}px`;
    const inSight = this.holder.clientHeight, top = this.holder.scrollTop;
    const room = Math.max(1, shown - inSight);
    // Where not all rows have pixels, a place of the scroll bar is a share of the rows.
    const first = all > MAX_PIXELS
      ? Math.round(Math.min(1, top / room) * Math.max(0, this.rows.length - Math.floor(inSight / HEIGHT) + 3))
      : Math.max(0, Math.floor(top / HEIGHT) - 4);
    const start = all > MAX_PIXELS ? top : first * HEIGHT;
    const count = Math.ceil(inSight / HEIGHT) + 8;
    this.body.replaceChildren(...this.rows.slice(first, first + count).map((row, at) => {
      const line = element("div", { className: "row" }, element("div", { className: "cell number" }, String(first + at + 1)),
        ...row.map((value) => element("div", { className: value === null ? "cell null" : "cell", title: showValue(value) }, showValue(value))));
      line.style.top = `${start + at * HEIGHT}px`;
      return line;
    }));
  }

  asText() {
    const lines = [this.columns.map(({ name }) => name), ...this.rows.map((row) => row.map((value) => value === null ? "" : showValue(value)))];
    return lines.map((line) => line.map((text) => text.replace(/[\t\n]/g, " ")).join("\t")).join("\n");
  }
}

// Return the rows of a small result as objects.
export const toObjects = ({ columns, rows }) => rows.map((row) => Object.fromEntries(row.map((value, at) => [columns[at].name, value])));

// Return a table of a few objects.
export function makeTable(rows, columns) {
  if (rows.length === 0) return element("p", { className: "null" }, "none");
  const names = columns || Object.keys(rows[0]);
  return element("table", {}, element("thead", {}, element("tr", {}, ...names.map((name) => element("th", {}, name.replaceAll("_", " "))))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...names.map((name) => {
      const value = row[name];
      if (value instanceof Node) return element("td", {}, value);
      return element("td", { className: value === null ? "null" : "", title: showValue(value) }, showValue(value));
    })))));
}
