package e2e

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// again is a message that is published once more from the console.
type again struct {
	name        string
	destination string // behind the sink's URL
	headers     map[string]any
	body        string
	refusal     string // why a browser cannot send it; the command can
}

// messagesAgain are messages of which shells, curl or browsers might make others.
var messagesAgain = []again{
	{"everything that can be set", "/ok/x?y=1", map[string]any{
		"Upstash-Method": "PUT", "Upstash-Retries": "2", "Upstash-Timeout": "90s", "Upstash-Label": "a,b",
		"Upstash-Retry-Delay": "1000 * (1 + retried)", "Upstash-Flow-Control-Key": "k", "Upstash-Flow-Control-Value": "rate=3,period=1m",
		"Upstash-Callback": "SINK/ok/called", "Upstash-Callback-Retries": "1", "Upstash-Callback-Forward-X-Tenant": "7",
		"Upstash-Failure-Callback": "SINK/ok/failed", "Upstash-Failure-Callback-Method": "PUT", "Upstash-Failure-Callback-Forward-X-Tenant": "8",
		"Content-Type": "text/plain", "Upstash-Forward-X-Tenant": "it's",
	}, "it's $HOME `x` \\ \"y\"\n@z", ""},
	{"no type", "/ok", nil, "a=b", ""},
	{"no body", "/ok", map[string]any{"Upstash-Forward-X-Empty": ""}, "", ""},
	{"a URL that clients would change", "/ok/a/../b//c/{d,e}/[1-3]?f={g,h}&upstash-retries=9&i=%2F", nil, "x", ""},
	{"names beyond Latin-1", "/ok", map[string]any{"Upstash-Label": "ключ", "Upstash-Forward-X-Name": "Zoë 木"}, "木", ""},
	{"more than an argument can have", "/ok", nil, strings.Repeat("'large' ", 40_000), ""},
	{"several values of a header", "/ok", map[string]any{"Upstash-Forward-X-A": []string{"1", "2"}}, "x", "its header Upstash-Forward-X-A has several values"},
}

// testPublishingAgain publishes messages again by the button and by the command that is
// copied: the server makes the same of it.
func testPublishingAgain(t *testing.T, b *browser, c *client, s *sink) {
	for _, test := range messagesAgain {
		t.Run(test.name, func(t *testing.T) {
			id := publishItem(t, c, s, test)
			want := createdEntry(t, c, id)
			page := b.open(t, desktop, c.console("/logs?open="+id))
			page.press("Copy as curl")
			page.until("seen.saidCopied", "be told that it is copied")
			checkSame(t, "curl", want, createdEntry(t, c, runCommand(t, c, evaluate[string](page, `seen.copied`))))
			if test.refusal != "" {
				page.sees("Cannot be published again here: " + test.refusal)
				return
			}
			page.press("Publish again")
			page.until(`document.querySelector(".drawer code").innerText !== "`+id+`"`, "see the new message")
			checkSame(t, "the button", want, createdEntry(t, c, evaluate[string](page, `document.querySelector(".drawer code").innerText`)))
		})
	}
}

// publishItem publishes a message by a batch, whose JSON holds any URL and header.
func publishItem(t *testing.T, c *client, s *sink, item again) string {
	t.Helper()
	headers := maps.Clone(item.headers)
	for name, value := range headers {
		if text, ok := value.(string); ok {
			headers[name] = strings.ReplaceAll(text, "SINK", s.url)
		}
	}
	body, err := json.Marshal([]map[string]any{{"destination": s.url + item.destination, "headers": headers, "body": item.body}})
	if err != nil {
		t.Fatal(err)
	}
	var made []struct{ MessageID, Error string }
	if err := c.call(t.Context(), http.MethodPost, "/v2/batch", nil, string(body), &made); err != nil {
		t.Fatal(err)
	}
	if made[0].Error != "" {
		t.Fatal(made[0].Error)
	}
	return made[0].MessageID
}

// runCommand runs a copied command in a shell and returns the id of the message it made.
func runCommand(t *testing.T, c *client, command string) string {
	t.Helper()
	cmd := exec.Command("bash")
	cmd.Stdin = strings.NewReader(command)
	cmd.Env = append(os.Environ(), "QSTASH_TOKEN="+c.token)
	var faults bytes.Buffer
	cmd.Stderr = &faults
	output, err := cmd.Output()
	var made receipt
	if err == nil {
		err = json.Unmarshal(output, &made)
	}
	if err != nil {
		t.Fatalf("the copied command: %v\n%s%s\n%.2000s", err, output, &faults, command)
	}
	return made.MessageID
}

// createdEntry returns what the log has of a message as it was accepted, but for what every
// message has of its own.
func createdEntry(t *testing.T, c *client, id string) map[string]any {
	t.Helper()
	var page struct{ Events []map[string]any }
	query := url.Values{"messageId": {id}, "state": {"CREATED"}}
	if err := c.call(t.Context(), http.MethodGet, "/v2/logs?"+query.Encode(), nil, "", &page); err != nil {
		t.Fatal(err)
	}
	if len(page.Events) != 1 {
		t.Fatalf("the log has %d entries of the acceptance of %s", len(page.Events), id)
	}
	entry := page.Events[0]
	delete(entry, "messageId")
	delete(entry, "time")
	return entry
}

func checkSame(t *testing.T, by string, want, got map[string]any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what %s publishes differs (-want +got):\n%s", by, diff)
	}
}
