// Keeps the page current: the server sends the parts that have changed, as HTML.
"use strict";

const filter = document.getElementById("filter");
const absent = document.getElementById("absent");
const live = document.getElementById("live");

function showRows() {
  const wanted = filter.value.trim().toLowerCase();
  for (const row of document.querySelectorAll("#members tbody tr")) {
    const named = row.cells[0].textContent.toLowerCase().includes(wanted);
    row.hidden = !named || (absent.checked && !row.classList.contains("absent"));
  }
}

// Rows with the same id and content stay in place, which keeps the scroll position.
function mergeRows(body, fresh) {
  const known = new Map([...body.rows].map((row) => [row.id, row]));
  let place = body.firstElementChild;
  for (const row of [...fresh.rows]) {
    const old = known.get(row.id);
    known.delete(row.id);
    if (old && old.innerHTML === row.innerHTML && old.className === row.className) {
      if (old === place) place = old.nextElementSibling;
      else body.insertBefore(old, place);
    } else {
      if (old && old === place) place = old.nextElementSibling;
      if (old) old.remove();
      body.insertBefore(row, place);
    }
  }
  for (const gone of known.values()) gone.remove();
}

function put(id, html) {
  const part = document.getElementById(id);
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  const before = part.querySelector("tbody");
  const after = fresh.content.querySelector("tbody");
  if (before && after) mergeRows(before, after);
  else part.replaceChildren(fresh.content);
}

document.querySelector(".filter").hidden = false;
filter.addEventListener("input", showRows);
absent.addEventListener("change", showRows);
showRows(); // a browser may have restored the filter's text

function listen() {
  const source = new EventSource("/events");
  source.addEventListener("parts", (event) => {
    const parts = JSON.parse(event.data);
    for (const [id, html] of Object.entries(parts)) put(id, html);
    if ("members" in parts) showRows();
  });
  source.addEventListener("open", () => {
    document.body.classList.remove("lost");
    document.body.dataset.live = "yes";
    live.textContent = "";
  });
  source.addEventListener("error", () => {
    document.body.classList.add("lost");
    document.body.dataset.live = "no";
    live.textContent = "· the coordinator does not answer: these values are stale";
    // EventSource reconnects after a lost connection, but not after a refusal, as while the
    // coordinator starts.
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 2000);
  });
}
listen();
