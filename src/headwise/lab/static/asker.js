// Who answers what needs Python: the server by HTTP, a notebook by messages, or nobody.

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
    if (!now) retry();
  };
  const retry = async () => {
    while (!alive) {
      await new Promise((done) => setTimeout(done, 1000));
      try {
        if ((await fetch("/api/health")).ok) tell(true);
      } catch {
        // still gone
      }
    }
  };
  const ask = async (kind, body, signal) => {
    const raw = body instanceof Blob;
    const name = raw && body.name ? `?name=${encodeURIComponent(body.name)}` : "";
    let answer;
    try {
      answer = await fetch(`/api/${kind}${name}`, {
        method: "POST",
        headers: { "Content-Type": raw ? "application/octet-stream" : "application/json" },
        body: raw ? body : JSON.stringify(body),
        signal,
      });
    } catch (error) {
      if (error.name !== "AbortError") tell(false);
      throw error.name === "AbortError" ? error : new Error("the server has stopped");
    }
    tell(true);
    const data = await answer.json();
    if (!answer.ok) throw new Error(data.error ?? `the server answered ${answer.status}`);
    return data;
  };
  ask.onChange = (watcher) => watchers.push(watcher);
  return ask;
}

function overMessages(model) {
  let next = 0;
  const waiting = new Map();
  model.on("msg:custom", (message) => {
    const found = waiting.get(message.id);
    if (!found) return;
    waiting.delete(message.id);
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
      waiting.set(id, { resolve, reject });
      model.send({ id, kind, body: given });
    });
  };
}

/** Ask for the latest state only: an earlier question that is still open is given up. */
export function latestOnly(ask) {
  let open = null;
  return async (kind, body) => {
    open?.abort();
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
}
