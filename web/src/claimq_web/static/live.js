// Fetches the page again and again and changes only what is different, so that focus and unfolded parts stay.
"use strict";

// A session has its own path, which programs on other ports of this host do not know: only this origin keeps it here.
// So a link without that path leads on, from the login page, to the session that this browser has.
const SESSION = "claimq_session";
const login = document.querySelector("#login[data-next]");
try {
  const here = document.body.dataset.session;
  const kept = localStorage.getItem(SESSION) || "";
  if (here) localStorage.setItem(SESSION, here);
  else if (login && kept === `/s/${login.dataset.ended}`) localStorage.removeItem(SESSION);
  else if (login && /^\/s\/[\w-]+$/.test(kept)) location.replace(kept + login.dataset.next);
} catch {
  // The browser keeps nothing: its user logs in again.
}

const PAUSE = 2000; // milliseconds between two updates, or ten times as long as the last one took, at most a minute
const SILENT = "claimq or its server does not answer";
const main = document.querySelector("main[data-live]");
const button = document.getElementById("pause");
const notice = document.getElementById("updates");
let isPaused = false;

function change(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType !== Node.ELEMENT_NODE || old.nodeName !== fresh.nodeName) {
    old.replaceWith(fresh);
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const children = [...fresh.childNodes];
  while (old.childNodes.length > children.length) old.lastChild.remove();
  children.forEach((child, n) => {
    if (n < old.childNodes.length) change(old.childNodes[n], child);
    else old.append(child);
  });
}

// Keeps a link that is there already, and so its focus.
function offerLogin() {
  if (notice.querySelector("a")) return;
  const link = document.createElement("a");
  link.href = location.pathname + location.search;
  link.textContent = "Log in again.";
  notice.replaceChildren("Your login has ended. ", link);
}

async function update() {
  const began = performance.now();
  let pause = PAUSE;
  try {
    // A redirect leads to the login: to that of this page, or to that of a proxy, maybe on another site.
    const response = await fetch(location.href, { cache: "no-store", redirect: "manual" });
    if (response.type === "opaqueredirect" || response.status === 401) {
      offerLogin();
    } else {
      const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
      const parts = fresh.querySelectorAll("[data-part]");
      if (!response.ok || !parts.length) throw new Error(SILENT);
      if (!isPaused) {
        for (const part of parts) change(document.getElementById(part.id), part);
        notice.textContent = "";
      }
      pause = Math.max(PAUSE, Math.min(60000, 10 * (performance.now() - began)));
    }
  } catch (error) {
    notice.textContent = `No update: ${error instanceof TypeError ? SILENT : error.message}.`;
  }
  setTimeout(next, pause);
}

function next() {
  if (isPaused || document.hidden) setTimeout(next, PAUSE);
  else update();
}

if (main) {
  button.hidden = false;
  button.addEventListener("click", () => {
    isPaused = !isPaused;
    button.setAttribute("aria-pressed", String(isPaused));
    notice.textContent = isPaused ? "Updates are paused." : "";
  });
  setTimeout(next, PAUSE);
}
