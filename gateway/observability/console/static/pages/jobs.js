// Jobs that the gateway runs beside statements: start, watch, cancel, and confirm what is removed.
import { fetchJson } from "../api.js";
import { element, makeTable } from "../grid.js";
import { formatBytes } from "./plan.js";

const JOBS = {
  Merge: ["merge", "It writes all flushed generations into the base table."],
  Snapshot: ["snapshot", "It remembers the regions in the base table, so that readers find them quicker."],
  Clean: ["clean", "It lists what nobody needs any more, and removes nothing yet."],
};
const POLL_MILLISECONDS = 500;

// The first click says what will happen, the second one does it.
export function isSecondClick(button, says, text) {
  says.className = "";
  if (button.dataset.armed === "yes") { button.dataset.armed = ""; return true; }
  button.dataset.armed = "yes";
  says.textContent = `${text} Click again to run it.`;
  button.addEventListener("blur", () => { button.dataset.armed = ""; }, { once: true });
  return false;
}

// Return buttons of jobs, and what shows the last job of a table, for those who may start them.
export function makeJobs(table, says) {
  const shown = element("div", { className: "job" }), place = { table_schema: table.table_schema, table_name: table.table_name };
  const isOf = (job) => job.table_schema === place.table_schema && job.table_name === place.table_name;
  const buttons = Object.entries(JOBS).map(([label, [kind, what]]) => element("button", {
    disabled: true, title: what,
    onclick: (event) => { if (kind === "clean" || isSecondClick(event.target, says, `${label}: ${what}`)) start({ kind }); },
  }, label));

  async function start(asked) {
    says.textContent = ""; says.className = "";
    try { await watch((await fetchJson("/api/jobs", { ...asked, ...place })).job_id); } catch (error) { says.textContent = error.message; says.className = "error"; }
  }

  async function watch(id) {
    for (;;) {
      const [job] = (await fetchJson(`/api/jobs?job_id=${encodeURIComponent(id)}`)).started;
      for (const button of buttons) button.disabled = job.state === "running";
      shown.replaceChildren(...drawJob(job, () => start({ kind: "clean", confirms: id }), () => shown.replaceChildren()));
      if (job.state !== "running") { if (job.state === "done") shown.dispatchEvent(new Event("job-done", { bubbles: true })); return; }
      await new Promise((resolve) => setTimeout(resolve, POLL_MILLISECONDS));
      if (!shown.isConnected) return;
    }
  }

  async function open() {
    const { max_running, started } = await fetchJson("/api/jobs");
    for (const button of buttons) button.disabled = !max_running;
    if (!max_running) for (const button of buttons) button.title = "This gateway runs no jobs (jobs.max_running, or it is read-only): run the commands below.";
    const last = started.filter(isOf).at(-1);
    if (last?.state === "running") await watch(last.job_id);
  }
  open().catch((error) => { says.textContent = error.message; says.className = "error"; });
  return { buttons, shown };
}

function drawJob(job, confirm, dismiss) {
  const name = `${job.kind} ${job.table_schema}.${job.table_name}`;
  if (job.state === "running") return drawRunning(job, name);
  if (job.state !== "done") return [element("p", { className: "error", role: "alert" }, [`${name}: ${job.state}`, ...job.lines.slice(-3)].join("\n"))];
  if (job.report === null) return [element("p", { role: "status" }, `${name}: done; what it tells is too long to be shown: run the command below`)];
  const { garbage, kept, ...facts } = job.report;
  if (!garbage) return [element("p", { role: "status" }, `${name}: done`), element("div", { className: "scroll" }, makeTable([facts]))];
  const places = `${garbage.length.toLocaleString("en")} ${garbage.length === 1 ? "place" : "places"}, ${formatBytes(facts.bytes)}`;
  const told = !garbage.length ? "nothing to remove" : facts.removed ? `removed ${places}` : `would remove ${places}`;
  const list = [...garbage.map(describeGarbage), ...kept.map((one) => ({ ...one, kind: `${one.kind} (stays)`, files: null, bytes: null }))];
  return [element("p", { role: "status" }, `${name}: ${told}`),
    ...(job.may_be_confirmed ? [element("div", { className: "bar" }, element("button", { className: "danger", onclick: confirm }, `Remove these ${places}`), element("button", { onclick: dismiss }, "Keep them"))] : []),
    element("div", { className: "scroll" }, makeTable(list, ["kind", "path", "files", "bytes", "reason"]))];
}

function drawRunning(job, name) {
  const { phase, done, total, unit } = job.progress ?? {}, bar = element("progress");
  if (total) Object.assign(bar, { max: total, value: done });
  const far = total ? `: ${done.toLocaleString("en")} of ${total.toLocaleString("en")} ${unit}` : "";
  const cancel = element("button", { onclick: () => fetchJson("/api/jobs/cancel", { job_id: job.job_id }).catch((error) => { cancel.title = error.message; }) }, "Cancel job");
  return [element("div", { className: "bar", role: "status" }, `${name} runs`, bar, phase ? `${phase}${far}` : "", cancel)];
}

function describeGarbage(one) {
  const numbers = one.last ? ` ${one.first === one.last ? one.first : `${one.first}..${one.last}`}` : "";
  return { ...one, path: one.path + numbers };
}

// Return a table of all long jobs that run over the tables of the root, here and elsewhere.
export function drawRunningJobs(running) {
  return makeTable(running.map((job) => ({
    kind: job.kind, table: `${job.table_schema}.${job.table_name}`, phase: job.phase,
    progress: job.total ? element("progress", { max: job.total, value: job.done, title: `${job.done} of ${job.total}` }) : null,
    done: job.done === null ? null : `${job.done.toLocaleString("en")}${job.total === null ? "" : ` of ${job.total.toLocaleString("en")}`} ${job.unit}`,
    user: job.user, host: job.host, started_at: job.started_at,
  })));
}
