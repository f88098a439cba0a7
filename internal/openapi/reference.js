// Lets a reader try each operation against the server that shows the page, with samples of the same
// request in four languages. Works on what the page says of an operation: data attributes.

const samples = { curl, TypeScript: typescript, Python: python, Go: go };
let token = sessionStorage.getItem("token") ?? "";
let language = "curl";

const access = document.querySelector("#access");
access.append(
  field("Token, to try operations", {
    type: "password",
    value: token,
    autocomplete: "off",
    input: (value) => {
      token = value;
      sessionStorage.setItem("token", value);
    },
  }),
);

for (const article of document.querySelectorAll("article[data-method]")) {
  const details = make("details", { className: "try" }, make("summary", {}, "Samples, and try it"));
  details.addEventListener("toggle", () => details.open && details.childElementCount === 1 && fill(article, details));
  article.append(details);
}

// fill builds the form of an operation when it is first opened.
function fill(article, details) {
  const { method, path, body: media } = article.dataset;
  const values = new Map();
  const form = make("form", {});
  for (const { dataset } of article.querySelectorAll("tr[data-name]")) {
    const label = `${dataset.name} (${dataset.in}${"required" in dataset ? ", required" : ""})`;
    form.append(field(label, { required: "required" in dataset, input: (value) => (values.set(dataset, value), show()) }));
  }
  let content = media === "application/json" ? "{}" : "";
  if (media) form.append(field(`Body (${media})`, { area: true, value: content, input: (value) => ((content = value), show()) }));
  const tabs = make("div", { className: "tabs" });
  const sample = make("pre", { tabIndex: 0 });
  const answer = make("pre", { className: "answer", hidden: true, tabIndex: 0 });
  form.append(make("button", {}, `Send this ${method} request`), tabs, sample, answer);
  for (const name of Object.keys(samples)) {
    const tab = make("button", { type: "button" }, name);
    tab.addEventListener("click", () => ((language = name), show()));
    tabs.append(tab);
  }

  const request = () => {
    let target = path;
    const query = new URLSearchParams();
    const headers = {};
    for (const [{ name, in: where, rest }, value] of values) {
      if (value === "") continue;
      if (where === "path") target = target.replace(`{${name}}`, rest === undefined ? encodeURIComponent(value) : value);
      else if (where === "query") query.append(name, value);
      else headers[name] = value;
    }
    if (media) headers["Content-Type"] = media === "*/*" ? typeOf(content) : media;
    const search = query.size > 0 ? `?${query}` : "";
    return { method, url: location.origin + target + search, headers, body: media ? content : undefined };
  };
  function show() {
    for (const tab of tabs.children) tab.setAttribute("aria-pressed", String(tab.textContent === language));
    sample.textContent = samples[language](request());
  }
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const { url, headers, body } = request();
    answer.hidden = false;
    answer.textContent = "…";
    try {
      const response = await fetch(url, { method, headers: { ...headers, Authorization: `Bearer ${token}` }, body });
      const text = await response.text();
      answer.textContent = `${response.status} ${response.statusText}\n${pretty(text)}`;
    } catch (error) {
      answer.textContent = String(error);
    }
  });
  details.append(form);
  show();
}

// typeOf returns the type of a body that may have any.
function typeOf(body) {
  try {
    JSON.parse(body);
    return "application/json";
  } catch {
    return "text/plain";
  }
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function make(name, properties, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

function field(label, { area, input, ...properties }) {
  const control = make(area ? "textarea" : "input", properties);
  control.addEventListener("input", () => input(control.value));
  return make("label", {}, make("span", {}, label), control);
}

function curl({ method, url, headers, body }) {
  const lines = [`curl -X ${method} ${shell(url)}`, '-H "Authorization: Bearer $QSTASH_TOKEN"'];
  for (const [name, value] of Object.entries(headers)) lines.push(`-H ${shell(`${name}: ${value}`)}`);
  if (body !== undefined) lines.push(`-d ${shell(body)}`);
  return lines.join(" \\\n  ");
}

function shell(text) {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

function typescript({ method, url, headers, body }) {
  const all = [...Object.entries(headers).map(([n, v]) => `    ${JSON.stringify(n)}: ${JSON.stringify(v)},`)];
  return `const response = await fetch(${JSON.stringify(url)}, {
  method: "${method}",
  headers: {
    Authorization: \`Bearer \${process.env.QSTASH_TOKEN}\`,
${all.map((line) => line + "\n").join("")}  },${body === undefined ? "" : `\n  body: ${JSON.stringify(body)},`}
});
console.log(response.status, await response.text());`;
}

function python({ method, url, headers, body }) {
  const all = Object.entries(headers).map(([n, v]) => `        ${JSON.stringify(n)}: ${JSON.stringify(v)},\n`);
  return `import os, requests

response = requests.request(
    "${method}",
    ${JSON.stringify(url)},
    headers={
        "Authorization": "Bearer " + os.environ["QSTASH_TOKEN"],
${all.join("")}    },${body === undefined ? "" : `\n    data=${JSON.stringify(body)},`}
)
print(response.status_code, response.text)`;
}

function go({ method, url, headers, body }) {
  const set = Object.entries(headers).map(([n, v]) => `request.Header.Set(${JSON.stringify(n)}, ${JSON.stringify(v)})\n`);
  return `request, err := http.NewRequest("${method}", ${JSON.stringify(url)}, ${body === undefined ? "nil" : `strings.NewReader(${JSON.stringify(body)})`})
if err != nil {
	return err
}
request.Header.Set("Authorization", "Bearer "+os.Getenv("QSTASH_TOKEN"))
${set.join("")}response, err := http.DefaultClient.Do(request)`;
}
