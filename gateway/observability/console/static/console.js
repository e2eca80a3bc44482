// The frame: who is logged in, and which page is shown.
import { call, openSession } from "./api.js";
import * as charts from "./pages/charts.js";
import * as now from "./pages/now.js";
import * as query from "./pages/query.js";
import * as search from "./pages/search.js";
import * as tables from "./pages/tables.js";

const PAGES = { query: tables.refresh, search: search.refresh, tables: tables.refresh, now: now.refresh, charts: charts.refresh };
const find = (id) => document.getElementById(id);
let isOpen = false;

async function show() {
  if (!isOpen) return;
  const asked = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B"));
  const [page] = asked.keys();
  const name = page in PAGES ? page : "query";
  for (const other of Object.keys(PAGES)) {
    find(other).hidden = other !== name;
    document.querySelector(`[data-page=${other}]`).toggleAttribute("aria-current", other === name);
  }
  if (name === "query") {
    const { query: text, ...others } = Object.fromEntries(asked);
    if (text) query.openTab(text, others);
    query.focus();
  }
  await load(PAGES[name]);
}

async function load(refresh) {
  try { await refresh(); find("failure").textContent = ""; } catch (error) { find("failure").textContent = error.message; }
}

function follow(name, refresh, milliseconds) {
  setInterval(() => { if (isOpen && !find(name).hidden && find(`${name}-follow`).checked && !document.hidden) load(refresh); }, milliseconds);
}

function enter(session) {
  isOpen = session.user !== null;
  find("login").hidden = isOpen;
  find("user").textContent = session.needs_login ? session.user ?? "" : "";
  find("logout").hidden = !isOpen || !session.needs_login;
  if (isOpen) show();
  else for (const name of Object.keys(PAGES)) find(name).hidden = true;
}

find("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  const { user, password, token } = Object.fromEntries(new FormData(event.target));
  const says = event.target.querySelector(".error");
  try {
    enter(await openSession(token ? { token } : { user, password }));
    event.target.reset(); says.textContent = "";
  } catch (error) { says.textContent = error.message; }
});
find("logout").onclick = async () => { await call("/api/logout", {}); location.reload(); };
find("tables-refresh").onclick = () => load(tables.refresh);
document.addEventListener("logged-out", () => { if (isOpen) enter({ user: null, needs_login: true }); });
addEventListener("hashchange", show);
follow("now", now.refresh, 2000);
follow("tables", tables.refresh, 5000);
follow("charts", charts.refresh, 10_000);

query.start();
search.start();
tables.start();
charts.start();
openSession().then(enter, (error) => { find("failure").textContent = error.message; });
