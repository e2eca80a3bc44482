// The page Tables: how fresh each table is, and what it consists of.
import { fetchJson, fetchRows } from "../api.js";
import { element, makeTable, toObjects } from "../grid.js";
import { formatBytes } from "./plan.js";
import { drawUpkeep } from "./upkeep.js";
import { complete, openTab } from "./query.js";

const OF_TABLE = "WHERE table_schema = $1 AND table_name = $2";
// What is read of the one table that is shown.
const DETAILS = {
  Indexes: `SELECT index_name, type, columns, is_maintained, covered_fragments, base_fragments, changed_at_version FROM system.indexes ${OF_TABLE} ORDER BY index_name`,
  Versions: `SELECT version, committed_at, tags, operation, rows, is_latest FROM system.versions ${OF_TABLE} ORDER BY version DESC LIMIT 100`,
  Tags: `SELECT tag, branch, version, created_at, updated_at FROM system.tags ${OF_TABLE} ORDER BY tag`,
};
const REGION = ["region_id", "region_values", "status", "writer_epoch", "current_generation", "merged_generation", "unmerged_generations", "unflushed_entries", "unflushed_rows", "index_catchup"];
const key = (row) => `${row.table_schema}.${row.table_name}`;
const sum = (rows, name) => rows.reduce((all, row) => all + Number(row[name] ?? 0), 0);

export const start = () => document.getElementById("table-detail").addEventListener("job-done", refresh);

export async function refresh() {
  const data = await fetchJson("/api/tables");
  complete(data.columns);
  const waiting = new Map(data.generations.map((row) => [key(row), row]));
  const rows = data.tables.map((table) => {
    const regions = data.regions.filter((region) => key(region) === key(table)), generations = waiting.get(key(table));
    const missed = sum(regions, "unflushed_rows") + Number(generations?.rows ?? 0);
    const name = element("button", { className: "link", onclick: () => show(table, regions, data.columns) }, key(table));
    return {
      table: name, base_version: table.base_version, base_rows: table.base_rows, base_size: table.base_bytes === null ? null : formatBytes(Number(table.base_bytes)), regions: regions.length,
      generations_waiting: generations?.waiting ?? 0, oldest_waits_s: generations ? Math.round(generations.lag_seconds) : null,
      log_entries: sum(regions, "unflushed_entries"), versions_plain_Lance_misses: missed,
    };
  });
  const list = makeTable(rows);
  for (const [at, row] of rows.entries()) {
    list.querySelectorAll("tbody tr")[at].lastChild.className = row.versions_plain_Lance_misses ? "stale" : "fresh";
  }
  document.getElementById("tables-list").replaceChildren(list);
}

async function show(table, regions, columns) {
  const ask = element("button", { onclick: () => { openTab(`SELECT * FROM "${table.table_schema}"."${table.table_name}" LIMIT 100`); location.hash = "query"; } }, "Query");
  const details = Object.keys(DETAILS).map((title) => element("div", { className: "scroll", id: `table-${title.toLowerCase()}` }));
  document.getElementById("table-detail").replaceChildren(
    element("h2", {}, key(table), " ", ask),
    element("p", {}, `key: ${(table.primary_key ?? []).join(", ") || "none"}${table.comment ? ` · ${table.comment}` : ""}`),
    drawUpkeep(table),
    element("h2", {}, "Columns"),
    element("div", { className: "scroll" }, makeTable(columns.filter((column) => key(column) === key(table)), ["column_name", "data_type", "is_nullable"])),
    element("h2", {}, "Regions"),
    element("div", { className: "scroll" }, makeTable(regions, REGION)),
    ...Object.keys(DETAILS).flatMap((title, at) => [element("h2", {}, title), details[at]]),
  );
  for (const [at, sql] of Object.values(DETAILS).entries()) {
    try { details[at].replaceChildren(makeTable(toObjects(await fetchRows(sql, [table.table_schema, table.table_name])))); } catch (error) { details[at].replaceChildren(element("p", { className: "error" }, error.message)); }
  }
  // An index that does not cover all fragments is behind.
  for (const row of document.querySelectorAll("#table-indexes tbody tr")) row.children[4].className = row.children[4].textContent === row.children[5].textContent ? "fresh" : "stale";
}
