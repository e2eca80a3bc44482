// Requests to the gateway. Every one that changes something repeats the token of the session.
let csrf = "";

export class ApiError extends Error {
  constructor(message, status) { super(message); this.status = status; }
}

export async function call(path, body, options = {}) {
  const headers = { ...(options.accept ? { accept: options.accept } : {}) };
  if (body !== undefined) Object.assign(headers, { "content-type": "application/json", "x-csrf-token": csrf });
  const response = await fetch(path, {
    method: body === undefined ? "GET" : "POST", headers, signal: options.signal,
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (response.ok) return response;
  const text = await response.text();
  let message = text;
  try { message = JSON.parse(text).error; } catch { /* an answer of something in between */ }
  if (response.status === 401) document.dispatchEvent(new Event("logged-out"));
  throw new ApiError(message, response.status);
}

export const fetchJson = async (path, body) => (await call(path, body)).json();

// Return the session, or one without a user where somebody has to log in.
export async function openSession(credentials) {
  let session = credentials ? await fetchJson("/api/login", credentials) : await fetchJson("/api/session");
  if (session.user === null && !session.needs_login) session = await fetchJson("/api/login", {});
  csrf = session.csrf_token || "";
  return session;
}

// Return the columns and all rows of a small result; long texts, binaries and vectors are shortened.
export async function fetchRows(sql, parameters = []) {
  const found = { columns: [], rows: [] };
  for await (const line of streamLines(await call("/api/query", { sql, parameters }))) {
    if (line.error !== undefined) throw new ApiError(line.error, 200);
    if (line.columns) found.columns = line.columns;
    if (line.rows) found.rows.push(...line.rows);
  }
  return found;
}

// Yield the objects of a streamed answer, one a line.
export async function* streamLines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) yield JSON.parse(line);
  }
}
