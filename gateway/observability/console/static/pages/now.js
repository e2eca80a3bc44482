// The page Now: what runs, what was slow, and who is here.
import { fetchJson } from "../api.js";
import { element, makeTable } from "../grid.js";

const COLUMNS = {
  under_way: ["kill", "user", "state", "phase", "statement", "created_at", "rows"],
  slowest: ["user", "state", "duration_ms", "rows", "bytes", "regions_kept", "regions_pruned", "statement", "error"],
  latest: ["user", "state", "finished_at", "duration_ms", "rows", "statement", "error"],
  sessions: undefined,
};

export async function refresh() {
  const data = await fetchJson("/api/statements");
  for (const row of data.under_way) row.kill = element("button", { onclick: () => kill(row.query_id) }, "Kill");
  for (const [name, columns] of Object.entries(COLUMNS)) {
    document.getElementById(`now-${name}`).replaceChildren(makeTable(data[name], columns));
  }
}

async function kill(id) {
  try { await fetchJson("/api/statements/kill", { query_id: id }); } catch (error) { document.getElementById("failure").textContent = error.message; }
  await refresh();
}
