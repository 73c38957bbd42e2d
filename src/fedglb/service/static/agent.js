// Renews the parts of the agent's page, and asks what would be played.
"use strict";

const live = document.getElementById("live");
const form = document.getElementById("preview");
const wrong = document.getElementById("wrong");

async function renew() {
  try {
    const answer = await fetch(location.pathname);
    if (!answer.ok) throw new Error(String(answer.status));
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll(".live")) {
      const other = fresh.getElementById(part.id);
      if (other && other.innerHTML !== part.innerHTML) part.replaceChildren(...other.childNodes);
    }
    live.textContent = "";
    document.body.classList.remove("lost");
  } catch {
    live.textContent = "· the agent does not answer: these values are stale";
    document.body.classList.add("lost");
  }
  setTimeout(renew, 5000);
}

function parsed(name) {
  const text = document.getElementById(name).value;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${name} is not JSON: ${error.message}`);
  }
}

function row(kind, texts) {
  const made = document.createElement("tr");
  texts.forEach((text, k) => {
    const cell = document.createElement(kind);
    cell.textContent = text;
    if (k) cell.className = "n";
    made.append(cell);
  });
  return made;
}

function show(arms) {
  const table = document.createElement("table");
  table.createTHead().append(row("th", ["arm", "expected reward", "played"]));
  const body = table.createTBody();
  for (const each of arms) {
    const percent = `${(100 * each.probability).toFixed(1)} %`;
    body.append(row("td", [each.arm_id ?? each.arm, each.estimate?.toPrecision(3) ?? "", percent]));
  }
  document.getElementById("previewed").replaceChildren(table);
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  wrong.textContent = "";
  document.getElementById("previewed").replaceChildren();
  try {
    const asked = { arms: parsed("arms") };
    // vectors have no context
    if (Array.isArray(asked.arms) && asked.arms.some((arm) => !Array.isArray(arm)))
      asked.context = parsed("context");
    const answer = await fetch(`${document.body.dataset.calls}/preview`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(asked),
    });
    const said = await answer.json();
    if (!answer.ok) throw new Error(said.detail);
    show(said.arms);
  } catch (error) {
    wrong.textContent = error.message;
  }
});
form.querySelector("button").disabled = false;
setTimeout(renew, 5000);
