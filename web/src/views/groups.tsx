// URL groups: the endpoints of each.

import { useState } from "preact/hooks";

import { call, post } from "../api";
import { away } from "../format";
import { href } from "../router";
import { identity } from "../session";
import type { Group } from "../types";
import { Ask, Form, type Change } from "../ui/act";
import { Delete, Resources } from "../ui/resource";
import { Field } from "../ui/widgets";

export function Groups() {
  return (
    <Resources<Group> title="URL groups" path="/v2/topics" one="URL group" nameOf={(group) => group.name}
      about="Publishing to a URL group sends a separate message to each of its endpoints."
      columns={["Group", "Endpoints", "Changed"]}
      form={(done) => <EndpointForm done={done} />}
      row={(group, change) => [
        <a href={href("/messages", { topicName: group.name })}>{group.name}</a>,
        <ul>{group.endpoints.map((endpoint) => <Endpoint key={endpoint.url} group={group} endpoint={endpoint} change={change} />)}</ul>,
        away(group.updatedAt),
        <Buttons group={group} change={change} />,
      ]} />
  );
}

interface EndpointProps {
  group: Group;
  endpoint: { name?: string; url: string };
  change: Change;
}

function Endpoint({ group, endpoint, change }: EndpointProps) {
  const remove = () => call("DELETE", `/v2/topics/${encodeURIComponent(group.name)}/endpoints`, { body: JSON.stringify({ endpoints: [endpoint] }) });
  return (
    <li>
      {endpoint.name !== undefined && <b>{endpoint.name} </b>}{endpoint.url}{" "}
      <Ask quiet change={change} deed={remove} label={`Remove ${endpoint.url}`} title={`Remove an endpoint of ${group.name}`} submit="Remove"
        means={`Messages published to ${group.name} from now on are not sent to ${endpoint.url}. Messages that are already published are still delivered.`}>×</Ask>
    </li>
  );
}

function Buttons({ group, change }: { group: Group; change: Change }) {
  const [adding, setAdding] = useState(false);
  return (
    <>
      <button disabled={identity().readOnly} onClick={() => setAdding(true)}>Add endpoint</button>
      <Delete name={group.name} change={change} means="Messages that are already published are still delivered."
        deed={() => call("DELETE", "/v2/topics/" + encodeURIComponent(group.name))} />
      {adding && <EndpointForm group={group} done={() => { setAdding(false); void change(async () => {}); }} />}
    </>
  );
}

function EndpointForm({ group, done }: { group?: Group; done: () => void }) {
  const [name, setName] = useState(group?.name ?? "");
  const [endpoint, setEndpoint] = useState("");
  const [url, setURL] = useState("");
  const save = () => post(`/v2/topics/${encodeURIComponent(name)}/endpoints`, { endpoints: [{ url, name: endpoint || undefined }] });
  return (
    <Form title={group === undefined ? "New URL group" : "Add an endpoint to " + group.name} submit="Save" save={save} done={done}>
      {group === undefined && <Field label="Name"><input required value={name} onInput={(event) => setName(event.currentTarget.value)} /></Field>}
      <Field label="Endpoint's URL"><input type="url" required value={url} onInput={(event) => setURL(event.currentTarget.value)} /></Field>
      <Field label="Endpoint's name" hint="Optional."><input value={endpoint} onInput={(event) => setEndpoint(event.currentTarget.value)} /></Field>
    </Form>
  );
}
