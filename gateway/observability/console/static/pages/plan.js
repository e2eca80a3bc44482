// A plan that has run, as a tree: where its time went, what each node gave, and what was not read.
import { element } from "../grid.js";

const number = (value) => value === null ? "" : value.toLocaleString("en");
const UNITS = ["B", "kB", "MB", "GB", "TB"];

export function formatBytes(bytes) {
  if (bytes === null) return "";
  let at = 0;
  while (bytes >= 1000 && at < UNITS.length - 1) { bytes /= 1000; at += 1; }
  return `${bytes >= 100 || at === 0 ? Math.round(bytes) : bytes.toFixed(1)} ${UNITS[at]}`;
}

export const formatSeconds = (seconds) => seconds === null ? "" : seconds >= 1 ? `${seconds.toFixed(2)} s` : `${(seconds * 1000).toFixed(seconds >= 0.1 ? 0 : 2)} ms`;

function* walk(node) { yield node; for (const input of node.inputs) yield* walk(input); }

// Return the elements of a tree. Shares are of the time that all nodes took, which partitions spend side by side.
export function drawPlan({ seconds, plan }) {
  const nodes = [...walk(plan)];
  const all = nodes.reduce((sum, node) => sum + (node.seconds ?? 0), 0);
  const slowest = nodes.reduce((most, node) => (node.seconds ?? 0) > (most.seconds ?? 0) ? node : most, plan);
  const tree = element("div", { className: "tree" }, drawHead(), drawNode(plan, 0, all, slowest));
  return [element("p", {}, `It ran for ${formatSeconds(seconds)}; its nodes took ${formatSeconds(all)}, most of it ${slowest.name}.`), tree];
}

function drawHead() {
  const cells = ["Time of its own", "Rows", "Bytes", "Node"].map((name, at) => element("span", { className: ["time", "count", "count", ""][at] }, name));
  return element("div", { className: "line head" }, ...cells);
}

function drawNode(node, depth, all, slowest) {
  const share = all > 0 ? (node.seconds ?? 0) / all : 0;
  const bar = element("meter", { value: share, max: 1, title: `${Math.round(share * 100)} % of the time` });
  const line = element("span", { className: `line${node === slowest && share > 0 ? " slow" : ""}${node.was_executed ? "" : " idle"}` },
    element("span", { className: "time" }, bar, node.seconds === null ? "" : `${formatSeconds(node.seconds)}`),
    element("span", { className: "count" }, number(node.rows)), element("span", { className: "count" }, formatBytes(node.bytes)),
    element("span", { className: "what" }, element("strong", {}, node.name), " ", element("span", { title: node.detail }, node.detail), node.was_executed ? "" : element("em", {}, " not executed")));
  const facts = [...drawCounters(node), ...drawScan(node.scan)];
  const inputs = node.inputs.map((input) => drawNode(input, depth + 1, all, slowest));
  const drawn = element("details", { open: true, className: facts.length + inputs.length ? "" : "leaf" }, element("summary", {}, line), ...facts, ...inputs);
  drawn.style.setProperty("--depth", depth);
  return drawn;
}

function drawCounters({ counters }) {
  const shown = Object.entries(counters).map(([name, count]) => `${name.replaceAll("_", " ")} ${/bytes|mem/.test(name) ? formatBytes(count) : number(count)}`);
  return shown.length ? [element("p", { className: "fact" }, shown.join(" · "))] : [];
}

function drawScan(scan) {
  if (scan === null) return [];
  if (scan.is_restricted) return [element("p", { className: "fact" }, `${scan.table}: an access policy applies; how it is read is not shown`)];
  const regions = scan.regions ? `, ${number(scan.regions_read)} of ${number(scan.regions)} regions read` : ", no regions";
  const facts = [element("p", { className: "fact" }, element("strong", {}, scan.table), ` base v${scan.version}, ${scan.read_as}${regions}`)];
  for (const { reason, count, ids } of scan.pruned) {
    facts.push(element("p", { className: "fact pruned", title: ids.join("\n") }, `${number(count)} not read: ${reason}`));
  }
  if (scan.hint) facts.push(element("p", { className: "fact hint" }, scan.hint));
  return facts;
}
