package e2e

import (
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// canaries are secrets that stand nowhere else, by what they are.
var canaries = map[string]string{
	"the password of the token":     "CANARY-token-2f9c",
	"the current signing key":       "sig_CANARYcurrent0123456789abcde",
	"the next signing key":          "sig_CANARYnext01234567890abcdefg",
	"a token that is not known":     "CANARY-stranger-71aa",
	"a redacted body":               "CANARY-body-8d03",
	"a redacted header":             "CANARY-header-5be1",
	"a password in a destination":   "CANARY-userinfo-c44e",
	"a secret in a query":           "CANARY-query-90d7",
	"a secret in a path":            "CANARY-path-1e6b",
	"a body that was not accepted":  "CANARY-refused-3c2d",
	"what a destination answered":   "CANARY-answer-a5f8",
	"a header that was forwarded":   "CANARY-forwarded-66b0",
	"the password of the database":  "CANARY-database-d19a",
	"a payload of a redacted run":   "CANARY-run-47ce",
	"what a redacted run calls":     "CANARY-call-e83b",
	"what was sent as no HTTP":      "CANARY-wire-b8b2",
	"a redacted header of callback": "CANARY-callback-0f3a",
}

// shownToTheirUser are canaries that the API tells the user they belong to: they were not
// redacted. Only the program's own words must not have them.
var shownToTheirUser = map[string]bool{
	"a password in a destination": true, "a secret in a query": true, "a secret in a path": true,
	"what a destination answered": true, "a header that was forwarded": true,
}

// TestSecretsNeverLeave lets a server do everything it can, also what fails, with secrets
// wherever one may stand, and then looks for them: in its log at the most talkative level,
// in its metrics, in answers to strangers and in the dump of a crash none may be; in
// answers to the user, none that was redacted.
func TestSecretsNeverLeave(t *testing.T) {
	onceOnly(t)
	t.Parallel()
	token := base64.StdEncoding.EncodeToString([]byte(`{"UserID":"keeper","Password":"` + canaries["the password of the token"] + `"}`))
	s := launch(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--destinations", "any", "--log-level", "debug",
		"--token", token,
		"--current-signing-key", canaries["the current signing key"],
		"--next-signing-key", canaries["the next signing key"],
	}, storeFlags(t, t.TempDir())...)...)
	k := &keeper{T: t, client: newClient(s.url(t), token)}
	strangers := k.doEverything()
	s.dump(t)

	program := map[string]string{
		"log and dump": s.output.all(), "metrics": k.metrics, "answers to strangers": strangers,
	}
	for name, text := range program {
		for what, secret := range canaries {
			for _, form := range formsOf(secret) {
				if strings.Contains(text, form) {
					t.Errorf("%s is in %s: %s", what, name, around(text, form))
				}
			}
		}
		if strings.Contains(text, token) {
			t.Errorf("the token is in %s: %s", name, around(text, token))
		}
	}
	for what, secret := range canaries {
		if shownToTheirUser[what] {
			continue
		}
		for _, form := range formsOf(secret) {
			if strings.Contains(k.answers, form) {
				t.Errorf("%s is in answers to its user: %s", what, around(k.answers, form))
			}
		}
	}
	for _, landmark := range []string{"attempt.finished", "SIGQUIT", "goroutine "} {
		if !strings.Contains(program["log and dump"], landmark) {
			t.Errorf("the log and the dump lack %q: not all of it was searched", landmark)
		}
	}
	for _, landmark := range []string{"REDACTED:", `"state":"FAILED"`, `"state":"DELIVERED"`, "workflowRunId", "dlqId"} {
		if !strings.Contains(k.answers, landmark) {
			t.Errorf("the answers lack %q: not everything was done", landmark)
		}
	}
}

// formsOf returns what shows a secret to whoever looks: itself, what stands of it in the
// base64 of any text that it is a part of, and what stands of that in base64 once more, as
// in the body of a callback that tells a body.
func formsOf(secret string) []string {
	forms := []string{secret}
	for _, once := range inBase64(secret) {
		forms = append(append(forms, once), inBase64(once)...)
	}
	return forms
}

// inBase64 returns the characters that are the same in the base64 of all texts with a part,
// wherever it begins: there are three ways to divide it into groups.
func inBase64(part string) []string {
	forms := make([]string, 3)
	for before := range forms {
		text := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("\x00", before) + part))
		shared := (before*8 + 5) / 6 // characters that tell of what stands before
		end := (before + len(part)) * 8 / 6
		forms[before] = text[shared:end]
	}
	return forms
}

// TestFormsOf looks for a secret where it begins at each place of a text.
func TestFormsOf(t *testing.T) {
	const secret = "CANARY-forms"
	for before := range 7 {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("~", before) + secret + strings.Repeat("?", before)))
		for range 2 {
			if !slices.ContainsFunc(formsOf(secret), func(form string) bool { return strings.Contains(text, form) }) {
				t.Errorf("behind %d bytes it is not found in %s", before, text)
			}
			text = base64.StdEncoding.EncodeToString([]byte(`{"body":"` + text + `"}`))
		}
	}
}

// keeper uses a server and keeps what it answers.
type keeper struct {
	*testing.T
	*client
	answers, metrics string
}

// ask sends a request, with the token of the keeper unless another is given, and returns
// the answer.
func (k *keeper) ask(method, path, token, body string, header ...string) string {
	k.Helper()
	r, err := http.NewRequestWithContext(k.Context(), method, k.base+path, strings.NewReader(body))
	if err != nil {
		k.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	response, err := k.http.Do(r)
	if err != nil {
		k.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		k.Fatal(err)
	}
	return string(text) + "\n"
}

func (k *keeper) do(method, path, body string, header ...string) {
	k.Helper()
	k.answers += k.ask(method, path, k.token, body, header...)
}

// doEverything puts the canaries wherever they fit, waits until all has ended, and reads
// all there is to read. It returns what strangers were answered.
func (k *keeper) doEverything() (strangers string) {
	destination := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/broken") {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = io.WriteString(w, canaries["what a destination answered"])
	}))
	defer destination.Close()
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	redacted := []string{
		"Upstash-Redact-Fields: body, header[X-Secret]", "Upstash-Forward-X-Secret: " + canaries["a redacted header"],
		"Upstash-Forward-X-Open: " + canaries["a header that was forwarded"], "Upstash-Retries: 0",
		"Upstash-Callback: " + destination.URL + "/told", "Upstash-Failure-Callback: " + destination.URL + "/failed",
		"Upstash-Callback-Forward-X-Secret: " + canaries["a redacted header of callback"],
	}
	secret := "/" + canaries["a secret in a path"] + "?key=" + canaries["a secret in a query"]
	withUser := strings.Replace(destination.URL, "://", "://me:"+canaries["a password in a destination"]+"@", 1)
	for _, url := range []string{
		destination.URL + "/ok" + secret, destination.URL + "/broken" + secret, down.URL + "/down" + secret, withUser + "/broken" + secret,
		"http://nowhere.invalid" + secret, strings.Replace(destination.URL, "http:", "https:", 1) + secret,
	} {
		k.do("POST", "/v2/publish/"+url, canaries["a redacted body"], redacted...)
		k.do("POST", "/v2/enqueue/q/"+url, canaries["a redacted body"], redacted...)
	}
	k.do("POST", "/v2/schedules/"+destination.URL+secret, canaries["a redacted body"], append(redacted, "Upstash-Cron: 0 0 1 1 *")...)
	k.do("POST", "/v2/topics/g/endpoints", `{"endpoints":[{"url":"`+withUser+secret+`"}]}`)
	k.do("POST", "/v2/publish/g", canaries["a redacted body"], redacted...)
	k.do("POST", "/v2/trigger/"+destination.URL+"/broken", canaries["a payload of a redacted run"], redacted...)
	k.do("POST", "/v2/batch", `[{"destination":"`+destination.URL+`/ok","body":"`+canaries["a redacted body"]+`","headers":{"Upstash-Redact-Fields":"body"}}]`)

	k.callFromRun(destination.URL)
	for _, bad := range []string{"Upstash-Delay: soon", "Upstash-Retries: -1", "Upstash-Cron: x", "Upstash-Redact-Fields: x"} {
		k.do("POST", "/v2/publish/"+destination.URL, canaries["a body that was not accepted"], bad)
	}
	k.do("POST", "/v2/batch", `[{"`+canaries["a body that was not accepted"]+`"`)
	for _, path := range []string{"/v2/logs", "/v2/queues", "/v2/nothing", "/v2/dlq/retry", "/v2/publish/" + destination.URL} {
		for _, token := range []string{"", canaries["a token that is not known"]} {
			strangers += k.ask("POST", path, token, canaries["a body that was not accepted"])
			strangers += k.ask("GET", path, token, "")
		}
		strangers += k.ask("GET", path+"?qstash_token="+canaries["a token that is not known"], "", "")
	}
	k.speakNoHTTP()

	k.waitUntilQuiet()
	for _, path := range []string{
		"/v2/logs", "/v2/events", "/v2/dlq", "/v2/workflows/dlq", "/v2/workflows/logs", "/v2/workflows/events", "/v2/queues",
		"/v2/schedules", "/v2/topics", "/v2/flowControl", "/v2/usage", "/v2/server", "/v2/bulkActions",
	} {
		k.do("GET", path, "")
	}
	k.do("POST", "/v2/dlq/retry", "")
	k.do("POST", "/v2/workflows/dlq/restart", "")
	k.waitUntilQuiet()
	k.do("GET", "/v2/logs", "")
	k.metrics = k.ask("GET", "/metrics", "", "") + k.ask("GET", "/readyz", "", "") + k.ask("GET", "/healthz", "", "")
	return strangers
}

// callFromRun lets a redacted run make a call, in the words of its SDK.
func (k *keeper) callFromRun(destination string) {
	k.Helper()
	secret := canaries["what a redacted run calls"]
	k.do("POST", "/v2/publish/"+destination+"/flow", secret, "Upstash-Redact-Fields: body, header",
		"Upstash-Workflow-Init: true", "Upstash-Workflow-RunId: wfr_caller", "Upstash-Workflow-Url: "+destination+"/flow")
	k.do("POST", "/v2/publish/"+destination+"/called", secret,
		"Upstash-Workflow-RunId: wfr_caller", "Upstash-Workflow-Init: false", "Upstash-Workflow-Url: "+destination+"/flow",
		"Upstash-Workflow-CallType: toCallback", "Upstash-Forward-X-Secret: "+secret,
		"Upstash-Callback: "+destination+"/flow", "Upstash-Callback-Forward-X-Secret: "+secret)
}

// speakNoHTTP sends what the server cannot read as a request.
func (k *keeper) speakNoHTTP() {
	k.Helper()
	for _, text := range []string{
		"GET /%zz?" + canaries["what was sent as no HTTP"] + " HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: h\r\n" + canaries["what was sent as no HTTP"] + "\r\n\r\n",
		canaries["what was sent as no HTTP"] + "\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(k.base, "http://"))
		if err != nil {
			k.Fatal(err)
		}
		_, _ = io.WriteString(conn, text)
		answer, _ := io.ReadAll(conn)
		k.answers += string(answer)
		_ = conn.Close()
	}
}

// waitUntilQuiet waits until no message is on its way any more.
func (k *keeper) waitUntilQuiet() {
	k.Helper()
	began := time.Now()
	for {
		if k.onTheirWay(k.T) == 0 {
			return
		}
		if time.Since(began) > patience {
			k.Fatal("messages are still on their way")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// dump makes the server end with a dump of what all its goroutines do, as a crash does.
func (s *server) dump(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.exited:
	case <-time.After(patience):
		s.kill(t)
		t.Fatal("the server did not end after SIGQUIT")
	}
}

// around returns what stands around a secret, so that a failure shows where it comes from.
func around(text, secret string) string {
	const context = 200
	at := strings.Index(text, secret)
	return "…" + text[max(0, at-context):min(len(text), at+len(secret)+context)] + "…"
}

// TestDatabasePasswordIsNotTold starts a server whose database is not there.
func TestDatabasePasswordIsNotTold(t *testing.T) {
	onceOnly(t)
	t.Parallel()
	secret := canaries["the password of the database"]
	for _, url := range []string{
		"postgres://me:" + secret + "@127.0.0.1:1/posthaste",
		"postgres://me:" + secret + "@nowhere.invalid/posthaste",
		"postgres://me:" + secret + "@127.0.0.1:port/posthaste",
		"postgres://me:" + secret + "@[::1/posthaste",
		"user=me password=" + secret + " host=127.0.0.1 port=1",
	} {
		s := launch(t, "serve", "--listen", "127.0.0.1:0", "--log-level", "debug", "--token", testToken, "--database-url", url)
		waits := func() bool { return s.output.contains("database.awaited") }
		await(t, "it waits for its database, or is refused", func() bool {
			select {
			case <-s.exited:
				return true
			default:
				return waits()
			}
		})
		if waits() {
			s.kill(t)
		}
		if text := s.output.all(); strings.Contains(text, secret) || text == "" {
			t.Errorf("it wrote: %s", text)
		}
	}
}
