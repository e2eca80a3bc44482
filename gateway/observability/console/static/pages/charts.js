// The page Last hour: what the gateway did, from samples that it keeps of its own metrics.
import { fetchJson } from "../api.js";
import { element } from "../grid.js";
import uPlot from "../lib/uplot.js";
import { formatBytes, formatSeconds } from "./plan.js";

const count = (value) => value === null ? "none" : value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 2 : 0 });
const HOUR = 3600, LEAST = 300, COLORS = ["--main", "--good", "--bad"];
const CHARTS = [
  { title: "Statements in a second", series: { statements: "ended" }, format: count, least: 1 },
  { title: "Time of a statement", series: { p50_seconds: "half take less (p50)", p99_seconds: "all but 1 % take less (p99)" }, format: (value) => value === null ? "none" : formatSeconds(value), least: 0.001 },
  { title: "Rows in a second", series: { sent_rows: "sent", written_rows: "written" }, format: count, least: 1 },
  { title: "Statements at once", series: { running: "running", queued: "queued" }, format: count, least: 1 },
  { title: "Memory", series: { memory_bytes: "gateway", worker_bytes: "workers", cache_bytes: "caches" }, format: formatBytes, least: 1e6 },
  { title: "Fresh rows that wait", series: { rows_in_logs: "rows in logs", generations_waiting: "generations to merge" }, format: count, least: 1 },
];
const tellTime = (at) => new Date(at * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
const drawn = new Map();

export function start() {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { clear(); refresh(); });
  new ResizeObserver(() => { for (const { chart, holder } of drawn.values()) resize(chart, holder); }).observe(document.getElementById("charts-list"));
}

export async function refresh() {
  const { samples } = await fetchJson("/api/history");
  for (const chart of CHARTS) draw(chart, samples);
}

function clear() {
  for (const { chart } of drawn.values()) chart.destroy();
  drawn.clear();
  document.getElementById("charts-list").replaceChildren();
}

const resize = (chart, holder) => { if (holder.clientWidth) chart.setSize({ width: holder.clientWidth, height: 170 }); };

function draw(kind, samples) {
  const { title, series, format } = kind;
  const last = samples.at(-1), names = Object.keys(series);
  const data = [samples.map(({ at }) => at), ...names.map((name) => samples.map((sample) => sample[name] ?? null))];
  const found = drawn.get(title) ?? create(kind, data);
  found.chart.setData(data, false);
  // uPlot takes the range of values from what is in the range of times.
  found.chart.setScale("x", { min: Math.max(last.at - HOUR, Math.min(samples[0].at, last.at - LEAST)), max: last.at });
  write(found.caption, "", Object.values(series), names.map((name) => format(last[name] ?? null)));
}

function create({ title, series, format, least }, data) {
  const paint = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);
  const caption = element("figcaption"), holder = element("div");
  document.getElementById("charts-list").append(element("figure", {}, element("h2", {}, title), holder, caption));
  const axis = { stroke: paint("--faint"), grid: { stroke: paint("--line"), width: 1 }, ticks: { stroke: paint("--line") } };
  const chart = new uPlot({
    width: holder.clientWidth || 300, height: 170, legend: { show: false }, cursor: { y: false },
    scales: { y: { range: (_, __, most) => [0, Math.max(most ?? 0, least) * 1.1] } },
    axes: [{ ...axis, values: (_, ticks) => ticks.map(tellTime) }, { ...axis, size: 70, values: (_, ticks) => ticks.map(format) }],
    series: [{}, ...Object.entries(series).map(([, label], at) => ({ label, stroke: paint(COLORS[at]), width: 2, spanGaps: true, points: { show: data[0].length < 3 } }))],
    hooks: { setCursor: [(self) => tell(self, caption, Object.values(series), format)] },
  }, data, holder);
  const made = { chart, caption, holder };
  drawn.set(title, made);
  return made;
}

// Below a chart are the values under the pointer, or the last ones.
function tell(chart, caption, labels, format) {
  const at = chart.cursor.idx;
  if (at === null || at === undefined || !chart.data[0].length) return;
  const time = new Date(chart.data[0][at] * 1000).toLocaleTimeString();
  write(caption, time, labels, labels.map((_, i) => format(chart.data[i + 1][at] ?? null)));
}

function write(caption, time, labels, values) {
  caption.replaceChildren(time, ...labels.flatMap((label, at) => {
    const key = element("span", { className: "key" });
    key.style.background = `var(${COLORS[at]})`;
    return [key, `${label}: ${values[at]}`];
  }));
}
