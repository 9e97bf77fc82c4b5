// Who answers what needs Python: the server by HTTP, a notebook by messages, or nobody.

const ASKER_STOPPED = "the server has stopped";
const ASKER_BEAT = 2000;
// A notebook gives up after 20 s; if it is busy with a cell, the question waits before that.
const ASKER_PATIENCE = 60000;

/** Return a function ask(kind, body, signal) that gives a promise of the answer, or null where there is no Python. */
export function asker(model) {
  if (model.get("server")) return overHttp();
  return model.send ? overMessages(model) : null;
}

function overHttp() {
  let alive = true;
  let watchers = [];
  const tell = (now) => {
    if (now === alive) return;
    alive = now;
    for (const watcher of watchers) watcher(now);
  };
  // Most of the page needs no server, so that it has stopped would not be noticed otherwise.
  const beat = async () => {
    for (;;) {
      await new Promise((done) => setTimeout(done, ASKER_BEAT));
      if (document.hidden) continue;
      try {
        tell((await fetch("/api/health")).ok);
      } catch {
        tell(false);
      }
    }
  };
  const ask = async (kind, body, signal) => {
    const raw = body instanceof Blob;
    const name = raw && body.name ? `?name=${encodeURIComponent(body.name)}` : "";
    let answer, data;
    try {
      answer = await fetch(`/api/${kind}${name}`, {
        method: "POST",
        headers: { "Content-Type": raw ? "application/octet-stream" : "application/json" },
        body: raw ? body : JSON.stringify(body),
        signal,
      });
      // Whatever is no JSON is not from this server.
      data = await answer.json().catch((error) => { if (signal?.aborted) throw error; return {}; });
    } catch (error) {
      if (signal?.aborted) throw error;
      answer = null;
    }
    tell(answer !== null && answer.status !== 503);
    if (!alive) throw new Error(ASKER_STOPPED);
    if (!answer.ok) throw new Error(data.error ?? `the server answered ${answer.status}`);
    return data;
  };
  ask.onChange = (watcher) => watchers.push(watcher);
  beat();
  return ask;
}

function overMessages(model) {
  let next = 0;
  const waiting = new Map();
  model.on("msg:custom", (message) => {
    const found = waiting.get(message.id);
    if (!found) return;
    waiting.delete(message.id);
    clearTimeout(found.timer);
    if (message.error) found.reject(new Error(message.error));
    else found.resolve(message.answer);
  });
  return async (kind, body) => {
    const id = next++;
    let given = body;
    if (body instanceof Blob) {
      const bytes = new Uint8Array(await body.arrayBuffer());
      let text = "";
      for (const byte of bytes) text += String.fromCharCode(byte);
      given = { name: body.name, base64: btoa(text) };
    }
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        waiting.delete(id);
        reject(new Error("the notebook does not answer; it is busy, or its Python has stopped"));
      }, ASKER_PATIENCE);
      waiting.set(id, { resolve, reject, timer });
      model.send({ id, kind, body: given });
    });
  };
}

/**
 * Ask for the latest state only: an earlier question that is still open is given up, and its answer is null.
 * `drop()` gives up the open one; call it whenever what was asked about has changed.
 */
export function latestOnly(ask) {
  let open = null;
  const latest = async (kind, body) => {
    latest.drop();
    const mine = new AbortController();
    open = mine;
    try {
      const answer = await ask(kind, body, mine.signal);
      return mine.signal.aborted ? null : answer;
    } catch (error) {
      if (mine.signal.aborted) return null;
      throw error;
    }
  };
  latest.drop = () => open?.abort();
  return latest;
}

/** Ask as long as something lasts: once `gone` is aborted, questions are given up and nobody hears of an answer. */
export function askWhile(gone, ask) {
  const forNobody = new Promise(() => {});
  return async (kind, body, signal) => {
    if (gone.aborted) return forNobody;
    try {
      const answer = await ask(kind, body, signal ? AbortSignal.any([gone, signal]) : gone);
      return gone.aborted ? forNobody : answer;
    } catch (error) {
      if (gone.aborted) return forNobody;
      throw error;
    }
  };
}
