// The page Query: an editor with tabs, and the rows of what it ran.
import { call, fetchJson, streamLines } from "../api.js";
import { basicSetup, Compartment, EditorState, EditorView, keymap, oneDark, PostgreSQL, Prec, sql } from "../lib/codemirror.js";
import { element, Grid } from "../grid.js";
import { drawPlan } from "./plan.js";

const MAX_ROWS = 1_000_000, MAX_HISTORY = 100;
// Table functions, which SHOW FUNCTIONS does not list.
const SEARCHES = [
  { name: "lance_vector_search", kind: "table", description: "The rows whose vectors are nearest to one.", syntax: "lance_vector_search('table', 'column', vector, k => 10)", signatures: [] },
  { name: "lance_fts", kind: "table", description: "The rows that fit words or a phrase best.", syntax: "lance_fts('table', 'column', 'words', k => 10)", signatures: [] },
  { name: "lance_hybrid_search", kind: "table", description: "The best rows by vector and by text.", syntax: "lance_hybrid_search('table', 'vectors', vector, 'texts', 'words', k => 10)", signatures: [] },
  { name: "lance_changes", kind: "table", description: "The rows that changed between two states.", syntax: "lance_changes('table', since => 3)", signatures: [] },
];
const find = (id) => document.getElementById(id);
const read = (key, otherwise) => { try { return JSON.parse(localStorage.getItem(key)) ?? otherwise; } catch { return otherwise; } };
const keep = (key, value) => { try { localStorage.setItem(key, JSON.stringify(value)); } catch { /* without storage nothing is kept */ } };
const quote = (name) => /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;

const language = new Compartment(), theme = new Compartment();
const dark = matchMedia("(prefers-color-scheme: dark)");
// Each tab has its text, and how it is asked. A text alone is a tab of an older version.
const tabs = read("tabs", ["SELECT * FROM system.tables"]).map((tab) => typeof tab === "string" ? makeTab(tab) : { ...makeTab(""), ...tab });
const DEFAULTS = { dialect: "postgres", consistency: "strong" };
let chosen = 0, running = null, ran = null, schema = {}, functions = null;
let grid, view;

function makeTab(text) { return { text, parameters: "", dialect: "postgres", consistency: "strong" }; }

const speak = () => [sql({ dialect: PostgreSQL, schema, upperCaseKeywords: true }), PostgreSQL.language.data.of({ autocomplete: offerFunctions })];
const paint = () => dark.matches ? oneDark : [];

export function start() {
  grid = new Grid(find("result"));
  const keys = Prec.highest(keymap.of([
    { key: "Mod-Enter", run: () => { run(); return true; } },
    { key: "Escape", run: () => { if (!running) return false; running.abort(); return true; } },
  ]));
  view = new EditorView({
    parent: find("editor"),
    state: EditorState.create({
      doc: tabs[0].text,
      extensions: [keys, basicSetup, language.of(speak()), theme.of(paint()), EditorView.lineWrapping,
        EditorView.updateListener.of((update) => { if (update.docChanged) { tabs[chosen].text = view.state.doc.toString(); keep("tabs", tabs); } })],
    }),
  });
  dark.addEventListener("change", () => view.dispatch({ effects: theme.reconfigure(paint()) }));
  find("run").onclick = run;
  find("cancel").onclick = () => running?.abort();
  find("explain").onclick = explain;
  find("share").onclick = share;
  find("copy").onclick = copy;
  find("export").onchange = (event) => download(event.target.selectedOptions[0]);
  find("history").onchange = (event) => { if (event.target.value) openTab(event.target.value); };
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") running?.abort(); });
  // Browsers keep a page for a while when it is left, and go on reading.
  window.addEventListener("pagehide", () => running?.abort());
  for (const name of ["parameters", "dialect", "consistency"]) {
    find(name).onchange = () => { tabs[chosen][name] = find(name).value; keep("tabs", tabs); };
  }
  find("parameters").onkeydown = (event) => { if (event.key === "Enter") { event.target.onchange(); run(); } };
  show(0); drawHistory();
}

// Return the functions, which are asked for once: they are many, and the same for everybody.
async function learnFunctions() {
  const found = (await fetchJson("/api/functions")).functions;
  return [...SEARCHES, ...found].map(({ name, kind, syntax, description, signatures }) => ({
    label: name, type: "function", detail: kind?.toLowerCase(), apply: `${name}(`,
    info: () => element("div", { className: "signatures" }, element("p", {}, description ?? ""), element("pre", {}, [syntax, ...signatures.slice(0, 8)].filter(Boolean).join("\n"))),
  }));
}

// Offer functions where a name may begin one: not behind a dot, and not in a text.
async function offerFunctions(context) {
  const word = context.matchBefore(/[\w.]*/);
  if (word.text.includes(".") || (!word.text && !context.explicit)) return null;
  functions ??= learnFunctions();
  try { return { from: word.from, options: await functions, validFor: /^\w*$/ }; } catch { functions = null; return null; }
}

// Take the tables' columns for the completion of names.
export function complete(columns) {
  schema = {};
  for (const { table_schema, table_name, column_name } of columns) {
    const name = table_schema === "main" ? table_name : `${table_schema}.${table_name}`;
    (schema[name] ||= []).push(quote(column_name));
  }
  view.dispatch({ effects: language.reconfigure(speak()) });
}

export function openTab(text, asked = {}) {
  const wanted = { ...makeTab(text), ...asked };
  const known = tabs.findIndex((tab) => Object.keys(wanted).every((name) => tab[name] === wanted[name]));
  if (known < 0) tabs.push(wanted);
  show(known < 0 ? tabs.length - 1 : known);
}

export const focus = () => view.focus();

function show(at) {
  chosen = at;
  view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: tabs[at].text } });
  for (const name of ["parameters", "dialect", "consistency"]) find(name).value = tabs[at][name];
  drawTabs();
}

function drawTabs() {
  const buttons = tabs.map((_, at) => {
    const button = element("button", { onclick: () => show(at), ondblclick: () => close(at), onkeydown: (event) => { if (event.key === "Delete") close(at); }, title: "Double click, or the key Delete, closes" }, `Query ${at + 1}`);
    button.setAttribute("role", "tab");
    button.setAttribute("aria-selected", String(at === chosen));
    return button;
  });
  find("tabs").replaceChildren(...buttons, element("button", { title: "New tab", onclick: () => { tabs.push(makeTab("")); show(tabs.length - 1); view.focus(); } }, "+"));
}

function close(at) {
  if (tabs.length > 1) { tabs.splice(at, 1); keep("tabs", tabs); show(Math.min(chosen, tabs.length - 1)); }
}

function drawHistory() {
  find("history").replaceChildren(element("option", { value: "" }, "History…"),
    ...read("history", []).map((text) => element("option", { value: text }, text.replace(/\s+/g, " ").slice(0, 80))));
}

function chosenText() {
  const { from, to } = view.state.selection.main;
  return (from === to ? view.state.doc : view.state.doc.slice(from, to)).toString().trim().replace(/;\s*$/, "");
}

// Return what is sent: the text, values of its parameters, and options that are not those of the session.
function ask(text) {
  const { parameters, ...options } = { parameters: find("parameters").value.trim(), dialect: find("dialect").value, consistency: find("consistency").value };
  let values = [];
  try { if (parameters) values = JSON.parse(`[${parameters}]`); } catch { throw new Error(`The parameters ${parameters} are not valid JSON: write them like 1, "text", [0.1, 0.2]`); }
  return { sql: text, parameters: values, options: Object.fromEntries(Object.entries(options).filter(([name, value]) => value !== DEFAULTS[name])) };
}

function say(text, isError = false) {
  find("status").textContent = text;
  find("status").className = isError ? "error" : "";
}

async function run() {
  const text = chosenText();
  if (!text || running) return;
  const signal = begin();
  find("plan").hidden = true; find("result").hidden = false;
  grid.clear();
  say("runs …");
  keep("history", [text, ...read("history", []).filter((other) => other !== text)].slice(0, MAX_HISTORY));
  drawHistory();
  try {
    ran = ask(text);
    const response = await call("/api/query", { ...ran, max_rows: MAX_ROWS }, { signal });
    for await (const line of streamLines(response)) take(line);
  } catch (error) {
    say(error.name === "AbortError" ? `cancelled after ${grid.rows.length.toLocaleString("en")} rows` : error.message, error.name !== "AbortError");
  } finally { end(); }
}

function take(line) {
  if (line.error !== undefined) throw new Error(line.error);
  if (line.columns && line.columns.length) grid.setColumns(line.columns);
  if (line.rows) { grid.append(line.rows); say(`${grid.rows.length.toLocaleString("en")} rows …`); }
  if (line.done) {
    const counted = line.affected === null ? `${line.row_count.toLocaleString("en")} rows${line.cut ? ", and there are more" : ""}`
      : line.affected < 0 ? "done" : `${line.affected.toLocaleString("en")} rows changed`;
    say(`${counted} in ${line.seconds.toFixed(3)} s`);
  }
}

async function explain() {
  if (running) return;
  const signal = begin();
  try {
    say("plans …");
    const { tree } = await (await call("/api/plan", { ...ask(chosenText()), analyze: true }, { signal })).json();
    find("plan").replaceChildren(...drawPlan(tree));
    find("plan").hidden = false; find("result").hidden = true;
    say("EXPLAIN ANALYZE: it has run the statement");
  } catch (error) { say(error.name === "AbortError" ? "cancelled" : error.message, error.name !== "AbortError"); } finally { end(); }
}

function begin() {
  running = new AbortController();
  find("cancel").disabled = false; find("run").disabled = find("explain").disabled = true;
  return running.signal;
}

function end() {
  running = null;
  find("cancel").disabled = true; find("run").disabled = find("explain").disabled = false;
}

async function download(option) {
  find("export").value = "";
  try {
    say("exports …");
    const response = await call("/api/query", ran ?? ask(chosenText()), { accept: option.value });
    const url = URL.createObjectURL(await response.blob());
    element("a", { href: url, download: `result.${option.dataset.ending}` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
    say("exported");
  } catch (error) { say(error.message, true); }
}

async function copy() {
  try { await navigator.clipboard.writeText(grid.asText()); say(`copied ${grid.rows.length.toLocaleString("en")} rows`); } catch (error) { say(error.message, true); }
}

function share() {
  const { text, ...asked } = { ...tabs[chosen], parameters: find("parameters").value };
  const shared = { query: text, ...Object.fromEntries(Object.entries(asked).filter(([name, value]) => value && value !== DEFAULTS[name])) };
  location.hash = Object.entries(shared).map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
  navigator.clipboard?.writeText(location.href);
  say("the link is in the address bar");
}
