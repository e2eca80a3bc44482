// What the client for Node gets: node ask.mjs OPTIONS STATEMENT ..., where a statement may be a method that lists something.
//
// Each finding is a JSON line: {"fact": statement, "value": rows} or {"fact": statement, "error": text, "code": code}.
import { createFlightSqlClient } from "@lakehouse-rs/flight-sql-client";
import { tableFromIPC } from "apache-arrow";

const plain = (_, value) =>
  typeof value === "bigint" ? Number(value) : ArrayBuffer.isView(value) ? Array.from(value) : value;

const [options, ...statements] = process.argv.slice(2);
for (const statement of statements) {
  const line = { fact: statement };
  try {
    const client = await createFlightSqlClient(JSON.parse(options));
    const bytes = await (statement in client ? client[statement]({}) : client.query(statement));
    line.value = tableFromIPC(bytes).toArray().map((row) => Object.values(row.toJSON()));
  } catch (error) {
    Object.assign(line, { error: error.message, code: error.code });
  }
  console.log(JSON.stringify(line, plain));
}
