// The page Query: an editor with tabs, and the rows of what it ran.
import { call, fetchJson, streamLines } from "../api.js";
import { basicSetup, Compartment, EditorState, EditorView, keymap, oneDark, PostgreSQL, Prec, sql } from "../lib/codemirror.js";
import { element, Grid } from "../grid.js";
import { drawPlan } from "./plan.js";

const MAX_ROWS = 1_000_000, MAX_HISTORY = 100;
const find = (id) => document.getElementById(id);
const read = (key, otherwise) => { try { return JSON.parse(localStorage.getItem(key)) ?? otherwise; } catch { return otherwise; } };
const keep = (key, value) => { try { localStorage.setItem(key, JSON.stringify(value)); } catch { /* without storage nothing is kept */ } };
const quote = (name) => /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;

const language = new Compartment(), theme = new Compartment();
const dark = matchMedia("(prefers-color-scheme: dark)");
const tabs = read("tabs", ["SELECT * FROM system.tables"]);
let chosen = 0, running = null, ran = "", schema = {};
let grid, view;

const speak = () => sql({ dialect: PostgreSQL, schema, upperCaseKeywords: true });
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
      doc: tabs[0],
      extensions: [keys, basicSetup, language.of(speak()), theme.of(paint()), EditorView.lineWrapping,
        EditorView.updateListener.of((update) => { if (update.docChanged) { tabs[chosen] = view.state.doc.toString(); keep("tabs", tabs); } })],
    }),
  });
  dark.addEventListener("change", () => view.dispatch({ effects: theme.reconfigure(paint()) }));
  find("run").onclick = run;
  find("cancel").onclick = () => running?.abort();
  find("explain").onclick = explain;
  find("share").onclick = share;
  find("copy").onclick = () => navigator.clipboard.writeText(grid.asText());
  find("export").onchange = (event) => download(event.target.selectedOptions[0]);
  find("history").onchange = (event) => { if (event.target.value) openTab(event.target.value); };
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") running?.abort(); });
  drawTabs(); drawHistory();
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

export function openTab(text) {
  const known = tabs.indexOf(text);
  if (known < 0) tabs.push(text);
  show(known < 0 ? tabs.length - 1 : known);
}

export const focus = () => view.focus();

function show(at) {
  chosen = at;
  view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: tabs[at] } });
  drawTabs();
}

function drawTabs() {
  const buttons = tabs.map((_, at) => {
    const button = element("button", { onclick: () => show(at), ondblclick: () => close(at), title: "Double click closes" }, `Query ${at + 1}`);
    button.setAttribute("role", "tab");
    button.setAttribute("aria-selected", String(at === chosen));
    return button;
  });
  find("tabs").replaceChildren(...buttons, element("button", { title: "New tab", onclick: () => { tabs.push(""); show(tabs.length - 1); view.focus(); } }, "+"));
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

function say(text, isError = false) {
  find("status").textContent = text;
  find("status").className = isError ? "error" : "";
}

async function run() {
  const text = chosenText();
  if (!text || running) return;
  running = new AbortController();
  find("cancel").disabled = false; find("run").disabled = true;
  find("plan").hidden = true; find("result").hidden = false;
  grid.clear();
  say("runs …");
  keep("history", [text, ...read("history", []).filter((other) => other !== text)].slice(0, MAX_HISTORY));
  drawHistory();
  ran = text;
  try {
    const response = await call("/api/query", { sql: text, max_rows: MAX_ROWS }, { signal: running.signal });
    for await (const line of streamLines(response)) take(line);
  } catch (error) {
    say(error.name === "AbortError" ? `cancelled after ${grid.rows.length.toLocaleString("en")} rows` : error.message, error.name !== "AbortError");
  } finally {
    running = null;
    find("cancel").disabled = true; find("run").disabled = false;
  }
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
  try {
    say("plans …");
    const { tree } = await fetchJson("/api/plan", { sql: chosenText(), analyze: true });
    find("plan").replaceChildren(...drawPlan(tree));
    find("plan").hidden = false; find("result").hidden = true;
    say("EXPLAIN ANALYZE: it has run the statement");
  } catch (error) { say(error.message, true); }
}

async function download(option) {
  find("export").value = "";
  try {
    say("exports …");
    const response = await call("/api/query", { sql: ran || chosenText() }, { accept: option.value });
    const url = URL.createObjectURL(await response.blob());
    element("a", { href: url, download: `result.${option.dataset.ending}` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
    say("exported");
  } catch (error) { say(error.message, true); }
}

function share() {
  location.hash = `query=${encodeURIComponent(view.state.doc.toString())}`;
  navigator.clipboard?.writeText(location.href);
  say("the link is in the address bar");
}
