// Requests to the service. Errors are sentences; a conflict carries the present labels.

export class ServiceError extends Error {
  constructor(status, answer) {
    super(answer.error ?? `The studio answered ${status}.`);
    Object.assign(this, { status, labels: answer.labels ?? [] });
  }
}

async function send(method, path, body, type = "application/json") {
  const options = { method, headers: body === undefined ? {} : { "content-type": type }, body };
  let answer;
  try {
    answer = await fetch(`/api/${path}`, options);
  } catch {
    throw new ServiceError(0, { error: "The studio does not answer. Is it still running?" });
  }
  const value = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new ServiceError(answer.status, value);
  return value;
}

export const get = (path) => send("GET", path);
export const post = (path, value) => send("POST", path, value === undefined ? undefined : JSON.stringify(value));
export const postTable = (path, table) => send("POST", path, table, "text/csv");
export const inPath = (name) => encodeURIComponent(name);
