// Makes pages livelier that work without it: times that go on, parts that refresh, logs that follow, questions in place.
"use strict";
(() => {
  const LINES_MAX = 5000;
  const REFRESH_MS = 1000;

  // The store's clock, carried on by this machine's monotonic one, so that a wrong clock here tells nothing wrong.
  let base = Number(document.body.dataset.now) / 1000;
  let since = performance.now();
  const now = () => base + performance.now() - since;

  const span = (ms) => {
    const seconds = Math.round(Math.abs(ms) / 1000);
    if (seconds < 60) return `${seconds}s`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)}m${seconds % 60 ? `${seconds % 60}s` : ""}`;
    const minutes = Math.floor(seconds / 60);
    if (seconds < 86400) return `${Math.floor(minutes / 60)}h${minutes % 60 ? `${minutes % 60}m` : ""}`;
    const hours = Math.floor(seconds / 3600);
    return `${Math.floor(hours / 24)}d${hours % 24 ? `${hours % 24}h` : ""}`;
  };
  const tellTimes = () => {
    if (!base) return;
    for (const one of document.querySelectorAll("time[data-us]")) {
      const away = Number(one.dataset.us) / 1000 - now();
      const text = Math.abs(away) < 1000 ? "just now" : away < 0 ? `${span(away)} ago` : `in ${span(away)}`;
      if (one.textContent !== text) one.textContent = text;
      if (!one.title) one.title = new Date(Number(one.dataset.us) / 1000).toLocaleString(undefined, { dateStyle: "full", timeStyle: "long" });
    }
  };
  setInterval(tellTimes, 5000);
  tellTimes();

  const menu = document.querySelector(".menu");
  const narrow = matchMedia("(max-width: 60rem)");
  const fold = () => { menu.open = !narrow.matches; };
  narrow.addEventListener("change", fold);
  fold();

  // Only what matters is said aloud, and only when it has changed; not that the next tick is a second nearer.
  const gist = () => (document.querySelector("#headline h1, #top .lead")?.textContent || "").replace(/\s+/g, " ").replace(/(next in|for|after|in) [\dmshd]+/g, "").trim();
  let told = gist();
  const announce = () => {
    const text = gist();
    if (text !== told) document.getElementById("announce").textContent = text;
    told = text;
  };

  // Refreshing: the page asks for itself and takes over the parts that say so, unless the reader is typing in one of them.
  const busy = (part) => part.contains(document.activeElement) && document.activeElement.matches("input, select, summary") || part.querySelector("details[open]");
  let refreshing = false, again = false, timer = 0;
  const refresh = async () => {
    if (refreshing) { again = true; return; }
    refreshing = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" }, credentials: "same-origin" });
      if (answer.status === 401) { location.reload(); return; }
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      base = Number(fresh.body.dataset.now) / 1000;
      since = performance.now();
      for (const part of document.querySelectorAll("[data-live]")) {
        const other = fresh.getElementById(part.id);
        if (!other || busy(part) || other.innerHTML === part.dataset.was) continue;
        const focused = part.contains(document.activeElement) && document.activeElement.getAttribute("href");
        part.className = other.className;
        part.dataset.was = other.innerHTML;
        part.replaceChildren(...other.childNodes);
        if (focused) for (const link of part.querySelectorAll("a")) if (link.getAttribute("href") === focused) { link.focus(); break; }
      }
      tellTimes();
      announce();
    } catch { /* the server is away; the stream comes back by itself, and then so do we */
    } finally {
      refreshing = false;
      if (again) { again = false; soon(); }
    }
  };
  const soon = () => { clearTimeout(timer); timer = setTimeout(refresh, REFRESH_MS); };
  // A browser opens few connections to one server: a page that is not looked at gives its own back. It takes a broken stream
  // up again by itself, but not one that was refused, as with the store away: that is tried anew, later each time.
  const listen = (open) => {
    let stream = null, tries = 0, timer = 0;
    const close = () => { clearTimeout(timer); if (stream) stream.close(); stream = null; };
    const see = () => {
      if (document.hidden) close();
      else if (!stream) {
        stream = open();
        stream.addEventListener("open", () => { tries = 0; });
        stream.addEventListener("error", () => {
          if (!stream || stream.readyState !== EventSource.CLOSED) return;
          close();
          timer = setTimeout(see, Math.min(2000 * 2 ** tries++, 30000));
        });
      }
    };
    document.addEventListener("visibilitychange", see);
    see();
    return () => { document.removeEventListener("visibilitychange", see); close(); };
  };

  const note = document.getElementById("live-note");
  if (document.querySelector("[data-live]")) {
    let heard = null, away = false;
    const live = note.textContent;
    listen(() => {
      const changes = new EventSource("/live");
      changes.addEventListener("hello", (event) => {
        note.hidden = false;
        note.textContent = live;
        if (away || heard !== null && heard !== event.data) soon();
        away = false;
        heard = event.data;
      });
      changes.addEventListener("change", (event) => { heard = event.data; soon(); });
      changes.addEventListener("bye", () => { changes.close(); location.reload(); });
      changes.addEventListener("error", () => {
        if (changes.readyState !== EventSource.CLOSED) return;
        away = true;
        note.textContent = "The server does not answer; this page goes on when it does.";
        soon();  // a session that is over leads to the login page
      });
      return changes;
    });
  }

  // The log: all of it is text, never markup.
  const log = document.getElementById("log");
  if (log) log.scrollTop = log.scrollHeight;
  if (log && log.dataset.stream) {
    const state = document.getElementById("log-state");
    const follow = document.getElementById("log-follow");
    let place = log.dataset.place;
    document.getElementById("log-acts").hidden = false;
    const add = (text) => {
      const empty = document.getElementById("log-empty");
      if (empty) empty.remove();
      log.append(text);
      const lines = log.textContent.split("\n");
      if (lines.length > LINES_MAX) log.textContent = lines.slice(-LINES_MAX).join("\n");
      else log.normalize();
      if (follow.checked) log.scrollTop = log.scrollHeight;
    };
    log.addEventListener("scroll", () => { follow.checked = log.scrollHeight - log.scrollTop - log.clientHeight < 40; });
    follow.addEventListener("change", () => { if (follow.checked) log.scrollTop = log.scrollHeight; });
    const stop = listen(() => {
      const stream = new EventSource(`${log.dataset.stream}?place=${encodeURIComponent(place)}`);
      stream.addEventListener("open", () => { state.textContent = "live"; });
      stream.addEventListener("error", () => { state.textContent = "coming back…"; });
      stream.addEventListener("text", (event) => {
        const said = JSON.parse(event.data);
        place = event.lastEventId || place;
        if (document.getElementById("talk")) soon();  // the same words, as a conversation
        add((said.skipped ? "… something was left out …\n" : "") + said.text);
      });
      stream.addEventListener("attempt", (event) => { const said = JSON.parse(event.data); add(`── attempt ${said.number}, fence ${said.fence} ──\n`); });
      stream.addEventListener("elsewhere", (event) => { add(JSON.parse(event.data).text); });
      stream.addEventListener("end", (event) => { stop(); state.textContent = JSON.parse(event.data).words; soon(); });
      stream.addEventListener("bye", () => { stop(); location.reload(); });
      return stream;
    });
  }

  // The timeline: buttons, keys and fingers lead to the same addresses, and only the picture is taken over from there.
  const step = async (address) => {
    history.replaceState(null, "", address);
    const kept = document.activeElement?.closest(".tl-box") ? ".tl-box" : document.activeElement?.dataset?.step;
    document.querySelector("#timeline details[open]")?.removeAttribute("open");
    await refresh();
    if (kept === ".tl-box") document.querySelector(".tl-box")?.focus({ preventScroll: true });
    else if (kept) document.querySelector(`[data-step="${kept}"]`)?.focus({ preventScroll: true });
  };
  const tell = (link) => {
    const told = document.getElementById("told");
    if (!told || !link) return;
    for (const one of document.querySelectorAll(".tell.at")) one.classList.remove("at");
    link.classList.add("at");
    const text = link.querySelector("title")?.textContent || "";
    const href = link.getAttribute("href");
    if (!href) { told.textContent = text; return; }
    const shown = document.createElement("a");
    shown.href = href;
    shown.textContent = text;
    told.replaceChildren(shown);
  };
  const walk = (by) => {
    const all = [...document.querySelectorAll(".tl .tell[href]")].filter((one) => one.getClientRects().length);
    const at = all.findIndex((one) => one.classList.contains("at"));
    tell(all[at < 0 ? (by > 0 ? 0 : all.length - 1) : (at + by + all.length) % all.length]);
  };
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-step]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    step(link.getAttribute("href"));
  });
  document.addEventListener("pointerover", (event) => { const link = event.target.closest?.(".tl .tell"); if (link) tell(link); });
  document.addEventListener("keydown", (event) => {
    if (!event.target.closest(".tl-box") || event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key === "=" ? "+" : event.key === "_" ? "-" : event.key;
    const link = [...document.querySelectorAll("#timeline a[data-step]")].find((one) => one.dataset.step === key);
    if (link) step(link.getAttribute("href"));
    else if (key === "n" || key === "p") walk(key === "n" ? 1 : -1);
    else if (key === "Enter") document.querySelector("#told a")?.click();
    else return;
    event.preventDefault();
  });
  const fingers = new Map();
  let began = null;
  const spread = () => { const [one, other] = [...fingers.values()]; return other ? Math.hypot(one.x - other.x, one.y - other.y) : 0; };
  document.addEventListener("pointerdown", (event) => {
    if (!event.target.closest?.(".tl-box") || event.pointerType === "mouse" && event.button) return;
    fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    began = { x: event.clientX, spread: spread(), box: event.target.closest(".tl-box") };
  });
  document.addEventListener("pointermove", (event) => {
    if (!fingers.has(event.pointerId) || !began) return;
    fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    const moved = event.clientX - began.x;
    if (fingers.size === 1 && Math.abs(moved) > 8) began.box.firstElementChild.style.transform = `translateX(${moved}px)`;
  });
  const lift = (event) => {
    if (!fingers.has(event.pointerId) || !began) return;
    const zoom = fingers.size === 2 && began.spread ? spread() / began.spread : 1;
    const moved = fingers.size === 1 ? event.clientX - began.x : 0;
    const box = began.box;
    fingers.clear();
    began = null;
    box.firstElementChild.style.transform = "";
    if (event.type === "pointercancel") return;
    if (zoom > 1.25 || zoom < 0.8) document.querySelector(`#timeline a[data-step="${zoom > 1 ? "+" : "-"}"]`)?.click();
    else if (Math.abs(moved) > 24) {
      const from = Number(box.dataset.from), until = Number(box.dataset.until);
      const end = until - moved / box.clientWidth * (until - from);
      const there = new URL(location.href);
      if (end / 1000 >= now()) there.searchParams.delete("until");
      else there.searchParams.set("until", new Date(end / 1000).toISOString().replace(/\.\d+Z/, "Z"));
      addEventListener("click", (click) => { click.preventDefault(); click.stopPropagation(); }, { capture: true, once: true });
      setTimeout(() => dispatchEvent(new Event("click", { cancelable: true })), 60);
      step(there.href);
    }
  };
  document.addEventListener("pointerup", lift);
  document.addEventListener("pointercancel", lift);
  document.addEventListener("dragstart", (event) => { if (event.target.closest?.(".tl-box")) event.preventDefault(); });

  // Questions in place: the same page that the link leads to, in a dialog.
  document.addEventListener("click", async (event) => {
    const link = event.target.closest("a[data-act]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    try {
      const answer = await fetch(link.href, { headers: { Accept: "text/html" }, credentials: "same-origin" });
      const form = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-act-form]");
      if (!answer.ok || !form) throw new Error("no question");
      const dialog = document.createElement("dialog");
      const title = form.querySelector("h1");
      title.id = "dialog-title";
      dialog.setAttribute("aria-labelledby", "dialog-title");
      dialog.append(form);
      document.body.append(dialog);
      dialog.addEventListener("close", () => { dialog.remove(); link.isConnected && link.focus(); });
      dialog.querySelector("[data-close]").addEventListener("click", (close) => { close.preventDefault(); dialog.close(); });
      dialog.querySelector("form").addEventListener("submit", (submit) => { submit.submitter.disabled = true; });
      dialog.showModal();
    } catch { location.href = link.href; }
  });
})();
