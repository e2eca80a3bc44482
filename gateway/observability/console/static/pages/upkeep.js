// What keeps a table quick: statements that the gateway runs, and jobs that it runs beside them.
import { fetchRows } from "../api.js";
import { element, makeTable, toObjects } from "../grid.js";
import { isSecondClick, makeJobs } from "./jobs.js";

const quote = (name) => `"${name.replaceAll('"', '""')}"`;
const STATEMENTS = {
  Optimize: (name) => [`OPTIMIZE ${name}`, "It compacts files and brings indexes up to date."],
  "Update indexes": (name) => [`OPTIMIZE ${name} INDEXES`, "It brings indexes up to date."],
  Flush: (name) => [`FLUSH TABLE ${name}`, "It flushes the rows in logs to generations, which merges can take."],
  Analyze: (name) => [`ANALYZE ${name}`, "It counts rows, bytes, regions and generations, and changes nothing."],
};
const COMMANDS = ["merge", "index", "snapshot", "clean", "clean --delete"];

export function drawUpkeep(table) {
  const name = `${quote(table.table_schema)}.${quote(table.table_name)}`;
  const says = element("p", { role: "status" }), result = element("div", { className: "scroll" });
  const parts = [element("h2", {}, "Upkeep")];
  if (table.is_writable) {
    const statements = Object.entries(STATEMENTS).map(([label, write]) => {
      const [sql, what] = write(name);
      return element("button", { title: `${sql}. ${what}`, onclick: (event) => run(event.target, sql, what, says, result) }, label);
    });
    const jobs = makeJobs(table, says);
    parts.push(element("div", { className: "bar" }, ...statements, ...jobs.buttons), says, jobs.shown);
  }
  const commands = COMMANDS.map((command) => writeCommand(command, table)).join("\n");
  return element("div", {}, ...parts, result, element("details", {}, element("summary", {}, "The same for a terminal or a schedule"), element("pre", {}, commands)));
}

function writeCommand(command, table) {
  const [verb, ...flags] = command.split(" ");
  return ["lance-gateway pipeline", verb, `${table.table_schema === "main" ? "" : `${table.table_schema}.`}${table.table_name}`, "--root ROOT", ...flags].join(" ");
}

async function run(button, sql, what, says, result) {
  if (!isSecondClick(button, says, `${sql}: ${what}`)) return;
  button.disabled = true;
  says.textContent = `${sql} runs …`;
  try {
    result.replaceChildren(makeTable(toObjects(await fetchRows(sql))));
    says.textContent = `${sql}: done`;
  } catch (error) {
    says.textContent = error.message;
    says.className = "error";
  } finally { button.disabled = false; }
}
