// What keeps a table quick: statements that the gateway runs, and jobs that run beside it.
import { fetchRows } from "../api.js";
import { element, makeTable } from "../grid.js";

const quote = (name) => `"${name.replaceAll('"', '""')}"`;
const STATEMENTS = {
  Optimize: (name) => [`OPTIMIZE ${name}`, "It compacts files and brings indexes up to date."],
  "Update indexes": (name) => [`OPTIMIZE ${name} INDEXES`, "It brings indexes up to date."],
  Analyze: (name) => [`ANALYZE ${name}`, "It counts rows, bytes, regions and generations, and changes nothing."],
};
// The gateway does not run these: they take a process of Spark.
const JOBS = ["merge", "index", "snapshot", "clean", "clean --delete"];

export function drawUpkeep(table) {
  const name = `${quote(table.table_schema)}.${quote(table.table_name)}`;
  const says = element("p", { role: "status" }), result = element("div", { className: "scroll" });
  const buttons = Object.entries(STATEMENTS).map(([label, write]) => {
    const [sql, what] = write(name);
    return element("button", { title: `${sql}. ${what}`, onclick: (event) => ask(event.target, sql, what, says, result) }, label);
  });
  return element("div", {}, element("h2", {}, "Upkeep"), table.is_writable ? element("div", { className: "bar" }, ...buttons) : "", says, result,
    element("details", {}, element("summary", {}, "Merging and cleaning are jobs beside the gateway"), element("pre", {}, JOBS.map((job) => writeJob(job, table)).join("\n"))));
}

function writeJob(job, table) {
  const [verb, ...flags] = job.split(" ");
  return ["lance-gateway pipeline", verb, `${table.table_schema === "main" ? "" : `${table.table_schema}.`}${table.table_name}`, "--root ROOT", ...flags].join(" ");
}

// The first click says what will happen, the second one does it.
async function ask(button, sql, what, says, result) {
  says.className = "";
  if (button.dataset.armed !== "yes") {
    button.dataset.armed = "yes";
    says.textContent = `${sql}: ${what} Click again to run it.`;
    button.addEventListener("blur", () => { button.dataset.armed = ""; }, { once: true });
    return;
  }
  button.dataset.armed = "";
  button.disabled = true;
  says.textContent = `${sql} runs …`;
  try {
    const { columns, rows } = await fetchRows(sql);
    says.textContent = `${sql}: done`;
    result.replaceChildren(makeTable(rows.map((row) => Object.fromEntries(row.map((value, at) => [columns[at].name, value])))));
  } catch (error) {
    says.textContent = error.message;
    says.className = "error";
  } finally { button.disabled = false; }
}
