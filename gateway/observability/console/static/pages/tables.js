// The page Tables: how fresh each table is, and what it consists of.
import { fetchJson } from "../api.js";
import { element, makeTable } from "../grid.js";
import { drawUpkeep } from "./upkeep.js";
import { complete, openTab } from "./query.js";

const key = (row) => `${row.table_schema}.${row.table_name}`;
const sum = (rows, name) => rows.reduce((all, row) => all + Number(row[name] ?? 0), 0);

export async function refresh() {
  const data = await fetchJson("/api/tables");
  complete(data.columns);
  const waiting = new Map(data.generations.map((row) => [key(row), row]));
  const rows = data.tables.map((table) => {
    const regions = data.regions.filter((region) => key(region) === key(table)), generations = waiting.get(key(table));
    const missed = sum(regions, "unflushed_rows") + Number(generations?.rows ?? 0);
    const name = element("button", { className: "link", onclick: () => show(table, regions, data.columns) }, key(table));
    return {
      table: name, base_version: table.base_version, base_rows: table.base_rows, regions: regions.length,
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

function show(table, regions, columns) {
  const ask = element("button", { onclick: () => { openTab(`SELECT * FROM "${table.table_schema}"."${table.table_name}" LIMIT 100`); location.hash = "query"; } }, "Query");
  document.getElementById("table-detail").replaceChildren(
    element("h2", {}, key(table), " ", ask),
    element("p", {}, `key: ${(table.primary_key ?? []).join(", ") || "none"}${table.comment ? ` · ${table.comment}` : ""}`),
    drawUpkeep(table),
    element("div", { className: "scroll" }, makeTable(columns.filter((column) => key(column) === key(table)), ["column_name", "data_type", "is_nullable"])),
    element("h2", {}, "Regions"),
    element("div", { className: "scroll" }, makeTable(regions, ["region_id", "region_values", "status", "writer_epoch", "unmerged_generations", "unflushed_entries", "unflushed_rows"])),
  );
}
