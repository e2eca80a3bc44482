// The page Now: what runs, what was slow, and who is here.
import { fetchJson } from "../api.js";
import { element, makeTable } from "../grid.js";
import { drawRunningJobs } from "./jobs.js";
import { formatBytes } from "./plan.js";

const COLUMNS = {
  under_way: ["kill", "user", "state", "phase", "statement", "created_at", "rows", "memory", "spilled"],
  slowest: ["user", "state", "duration_ms", "rows", "bytes", "memory", "spilled", "regions_kept", "regions_pruned", "statement", "error"],
  latest: ["user", "state", "finished_at", "duration_ms", "rows", "statement", "error"],
  sessions: undefined,
  writers: ["table", "region_id", "owned", "owner_url", "epoch", "since", "rows", "queued_requests", "unflushed_rows", "unflushed", "claims", "fenced", "flushes"],
  workers: ["pid", "state", "statements", "memory", "most_memory"],
};

export async function refresh() {
  const [data, jobs] = await Promise.all([fetchJson("/api/statements"), fetchJson("/api/jobs")]);
  for (const row of data.under_way) row.kill = element("button", { onclick: () => kill(row.query_id) }, "Kill");
  for (const row of data.writers) Object.assign(row, { table: `${row.table_schema}.${row.table_name}`, unflushed: formatBytes(Number(row.unflushed_bytes)) });
  for (const row of [...data.under_way, ...data.slowest]) Object.assign(row, { memory: describeBytes(row.memory_bytes), spilled: describeBytes(row.spilled_bytes) });
  for (const row of data.workers) Object.assign(row, { memory: formatBytes(Number(row.memory_bytes)), most_memory: formatBytes(Number(row.max_memory_bytes)) });
  document.getElementById("now-jobs").replaceChildren(drawRunningJobs(jobs.running));
  for (const [name, columns] of Object.entries(COLUMNS)) {
    document.getElementById(`now-${name}`).replaceChildren(makeTable(data[name], columns));
  }
}

/** Bytes as text; nothing where they were not measured. */
function describeBytes(bytes) {
  return bytes == null ? null : formatBytes(Number(bytes));
}

async function kill(id) {
  try { await fetchJson("/api/statements/kill", { query_id: id }); } catch (error) { document.getElementById("failure").textContent = error.message; }
  await refresh();
}
