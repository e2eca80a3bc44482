// The page Search: tries searches by vector, by text and by both, and tells what each word adds to a score.
import { fetchJson, fetchRows } from "../api.js";
import { element, Grid, makeTable } from "../grid.js";
import { openTab } from "./query.js";

const find = (id) => document.getElementById(`search-${id}`);
const quote = (name) => `"${name.replaceAll('"', '""')}"`;
const text = (value) => `'${String(value).replaceAll("'", "''")}'`;
const literal = (value) => typeof value === "number" || typeof value === "boolean" ? String(value) : value === null ? "NULL" : text(value);
const key = (row) => `${row.table_schema}.${row.table_name}`;
// Options by their names in SQL, and how their values are written.
const VECTOR_OPTIONS = { metric: text, nprobes: Number, ef: Number, refine_factor: Number, staleness: text };
const TEXT_OPTIONS = { operator: text, fuzziness: (value) => value === "auto" ? text(value) : Number(value) };
const MAX_EXPLAINED = 50, MAX_TERMS = 20;

let tables = [], columns = [], grid, asked = null;

export function start() {
  grid = new Grid(find("result"));
  find("table").onchange = offerColumns;
  for (const id of ["vector", "text", "by"]) find(id).addEventListener("change", showFields);
  document.getElementById("search-form").addEventListener("input", showStatement);
  document.getElementById("search-form").addEventListener("submit", (event) => { event.preventDefault(); run(); });
  find("open").onclick = () => { openTab(buildSearch(read()).sql); location.hash = "query"; };
  find("explain").onclick = explain;
}

export async function refresh() {
  const data = await fetchJson("/api/tables");
  ({ tables, columns } = data);
  const before = find("table").value;
  find("table").replaceChildren(...tables.map((row) => element("option", { value: key(row) }, key(row))));
  if (tables.some((row) => key(row) === before)) find("table").value = before;
  offerColumns();
}

function chosenTable() { return tables.find((row) => key(row) === find("table").value); }

function offerColumns() {
  const own = columns.filter((column) => key(column) === find("table").value);
  const offer = (id, fits) => {
    const names = own.filter(fits).map((column) => column.column_name);
    const before = find(id).value;
    find(id).replaceChildren(element("option", { value: "" }, "none"), ...names.map((name) => element("option", {}, name)));
    find(id).value = names.includes(before) ? before : names[0] ?? "";
  };
  // Whether a list is a vector is for the gateway to say.
  offer("vector", (column) => column.data_type === "ARRAY");
  offer("text", (column) => column.udt_name === "text");
  const [first] = chosenTable()?.primary_key ?? [];
  find("row").placeholder = first ? `${first} = 1` : "a condition that one row fulfils";
  showFields();
}

function showFields() {
  find("vector-fields").hidden = !find("vector").value;
  find("text-fields").hidden = !find("text").value;
  find("row-field").hidden = find("by").value !== "row";
  find("list-field").hidden = find("by").value === "row";
  showStatement();
}

function read() {
  const options = (names) => Object.fromEntries(Object.keys(names).map((name) => [name, find(name).value.trim()]).filter(([, value]) => value));
  return {
    table: chosenTable(), vector: find("vector").value, text: find("text").value, words: find("words").value.trim(),
    row: find("by").value === "row" ? find("row").value.trim() : null, list: find("list").value.trim(),
    k: find("k").value, where: find("where").value.trim(), prefilter: find("prefilter").checked, exact: find("exact").checked,
    vectorOptions: options(VECTOR_OPTIONS), textOptions: options(TEXT_OPTIONS),
  };
}

// Return the statement of a search, and what it orders by; throws where something is missing.
function buildSearch(asked) {
  if (!asked.table) throw new Error("there is no table");
  const name = `${quote(asked.table.table_schema)}.${quote(asked.table.table_name)}`;
  const byVector = asked.vector && (asked.row || asked.list), byText = asked.text && asked.words;
  if (!byVector && !byText) throw new Error("give a vector, a row whose vector is meant, or words");
  const parts = [text(`${asked.table.table_schema}.${asked.table.table_name}`)];
  if (byVector) {
    const vector = asked.row ? `(SELECT ${quote(asked.vector)} FROM ${name} WHERE ${asked.row} LIMIT 1)` : `[${asked.list.replace(/^\[|\]$/g, "")}]`;
    parts.push(text(asked.vector), vector);
  }
  if (byText) parts.push(text(asked.text), text(asked.words));
  if (asked.k) parts.push(`k => ${Number(asked.k)}`);
  const chosen = [...(byVector ? writeOptions(VECTOR_OPTIONS, asked.vectorOptions) : []), ...(byText ? writeOptions(TEXT_OPTIONS, asked.textOptions) : [])];
  parts.push(...chosen);
  if (byVector && asked.exact) parts.push("use_index => false");
  if (!asked.prefilter) parts.push("prefilter => false");
  const [call, order] = byVector && byText ? ["lance_hybrid_search", "_hybrid_score DESC"] : byVector ? ["lance_vector_search", "_distance"] : ["lance_fts", "_score DESC"];
  const where = asked.where ? `\nWHERE ${asked.where}` : "";
  return { sql: `SELECT *\nFROM ${call}(${parts.join(", ")})${where}\nORDER BY ${order}`, byText };
}

const writeOptions = (writers, chosen) => Object.entries(chosen).map(([name, value]) => `${name} => ${writers[name](value)}`);

function showStatement() {
  try { find("sql").textContent = buildSearch(read()).sql; find("sql").className = ""; } catch (error) { find("sql").textContent = error.message; find("sql").className = "null"; }
}

function say(words, isError = false) {
  find("status").textContent = words;
  find("status").className = isError ? "error" : "";
}

async function run() {
  find("terms").replaceChildren();
  find("explain").hidden = true;
  grid.clear();
  try {
    const search = read(), { sql, byText } = buildSearch(search);
    say("searches …");
    const started = performance.now();
    const found = await fetchRows(sql);
    // What tells how good a row is comes first.
    const names = found.columns.map(({ name }) => name);
    const order = [...names.keys()].sort((a, b) => names[b].startsWith("_") - names[a].startsWith("_") || a - b);
    grid.setColumns(order.map((at) => found.columns[at]));
    grid.append(found.rows.map((row) => order.map((at) => row[at])));
    say(`${found.rows.length} rows in ${((performance.now() - started) / 1000).toFixed(3)} s`);
    asked = { search, names, rows: found.rows };
    find("explain").hidden = !(byText && found.rows.length);
  } catch (error) { say(error.message, true); }
}

// Statistics are those of the whole table whatever the conditions are, so the score of one word alone in the rows
// that were found is what the word adds to theirs.
async function explain() {
  try {
    const { search, names, rows } = asked;
    const keys = search.table.primary_key ?? [];
    if (!keys.length) throw new Error("scores are explained by the rows' keys, and this table has none");
    if (search.words.startsWith("{")) throw new Error("queries in JSON are not taken apart: search for words");
    const shown = rows.slice(0, MAX_EXPLAINED), places = keys.map((name) => names.indexOf(name));
    const same = (row) => places.map((at, i) => `${quote(keys[i])} = ${literal(row[at])}`).join(" AND ");
    const terms = new Map();
    for (const term of search.words.replaceAll('"', " ").split(/\s+/).filter(Boolean)) terms.set(term, (terms.get(term) ?? 0) + 1);
    const adds = new Map(), words = [];
    for (const [term, times] of [...terms].slice(0, MAX_TERMS)) {
      const call = buildSearch({ ...search, vector: "", words: term, k: shown.length, where: shown.map((row) => `(${same(row)})`).join(" OR "), prefilter: true });
      const [found, plan] = [await fetchRows(call.sql), await fetchJson("/api/plan", { sql: call.sql, analyze: true })];
      words.push(...describe(term, plan.tree.plan));
      const of = found.columns.map(({ name }) => name), score = of.indexOf("_score");
      adds.set(times > 1 ? `${term} (${times} times)` : term, new Map(found.rows.map((row) => [keys.map((name) => row[of.indexOf(name)]).join("\0"), row[score] * times])));
    }
    drawTerms(shown, adds, places, names, keys);
    if (words.length) find("terms").append(element("h2", {}, "How rare each word is"), element("div", { className: "scroll" }, makeTable(words)));
  } catch (error) { say(error.message, true); }
}

// Return what the index knows of a word; nothing of a table whose access policy hides rows.
function describe(word, node) {
  const lines = node.inputs.flatMap((input) => describe(word, input));
  for (const [column, { documents, average_length, terms }] of Object.entries(node.facts.statistics ?? {})) {
    for (const [term, { documents: rows, idf }] of Object.entries(terms)) {
      lines.push({ word, column, term, "rows with it": rows, "rows in all": documents, "weight (idf)": idf.toFixed(3), "average length": average_length.toFixed(2) });
    }
  }
  return lines;
}

function drawTerms(shown, adds, places, names, keys) {
  const most = Math.max(...shown.map((row) => row[names.indexOf("_score")] ?? 0), 1e-9);
  const lines = shown.map((row) => {
    const id = places.map((at) => row[at]).join("\0");
    const line = Object.fromEntries(keys.map((name, i) => [name, row[places[i]]]));
    for (const [term, scores] of adds) {
      const score = scores.get(id) ?? 0;
      line[term] = element("span", {}, element("meter", { value: score, max: most }), ` ${score.toFixed(3)}`);
    }
    return { ...line, _score: row[names.indexOf("_score")]?.toFixed(3) ?? null };
  });
  find("terms").replaceChildren(element("h2", {}, "What each word adds to the score"), element("div", { className: "scroll" }, makeTable(lines)));
  if (lines.some((line) => line._score === null)) find("terms").append(element("p", { className: "null" }, "NULL: the row was not among the best by text"));
}
