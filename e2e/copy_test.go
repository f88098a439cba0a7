package e2e

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// TestCopy moves everything from a directory into a database and back into a directory.
// At each place a server answers the same, and goes on with what waits.
func TestCopy(t *testing.T) {
	needPostgres(t)
	t.Parallel()
	sink := newSink(t)
	first, last := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "last")
	database := shared.databaseFor(t, first)
	var want []string
	served(t, []string{"--data", first}, func(c *client) {
		publishSome(t, c, sink)
		want = answers(t, c)
	})
	for _, move := range []struct {
		from, to string
		copy     []string // flags
		serve    []string
	}{
		{first, database, []string{"--partitions", strconv.Itoa(*partitions)}, databaseFlags(database)},
		{database, last, nil, []string{"--data", last}},
	} {
		if output, err := exec.Command(binary, append([]string{"copy", "--from", move.from, "--to", move.to}, move.copy...)...).CombinedOutput(); err != nil {
			t.Fatalf("copy: %v\n%s", err, output)
		}
		served(t, move.serve, func(c *client) {
			for i, got := range answers(t, c) {
				if got != want[i] {
					t.Errorf("after a copy to %s the server answers %s, before %s", move.to, got, want[i])
				}
			}
		})
	}
	served(t, []string{"--data", last}, func(c *client) {
		c.post(t, "/v2/queues/held/resume", "")
		await(t, "what waited is delivered", func() bool { return sink.deliveries() == 2 })
	})
}

// publishSome leaves something of several kinds behind: a message that was delivered, a
// failed one, one that waits in a paused queue, a schedule and a failed run.
func publishSome(t *testing.T, c *client, s *sink) {
	t.Helper()
	c.post(t, "/v2/queues", `{"queueName":"held","parallelism":1}`)
	c.post(t, "/v2/queues/held/pause", "")
	noRetries := map[string]string{"Upstash-Retries": "0"}
	for _, kind := range []string{answerOK, answerBroken} {
		if _, err := c.publish(t.Context(), s.url+"/"+kind, noRetries, kind); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.enqueue(t.Context(), "held", s.url+"/"+answerOK, nil, "waits"); err != nil {
		t.Fatal(err)
	}
	c.post(t, "/v2/schedules/"+s.url+"?upstash-cron=0+0+1+1+*", "")
	mustCall(t, c, http.MethodPost, "/v2/trigger/"+s.url+"/"+answerRejected, noRetries, "", nil)
	await(t, "the run has failed", func() bool { return len(c.allFailedRuns(t)) == 1 })
	await(t, "all have ended but the one that waits", func() bool { return c.onTheirWay(t) == 1 })
}

// answers returns what a server says of all that it keeps.
func answers(t *testing.T, c *client) (all []string) {
	t.Helper()
	for _, path := range []string{
		"/v2/logs", "/v2/logs?state=FAILED", "/v2/dlq", "/v2/workflows/dlq", "/v2/workflows/logs", "/v2/queues", "/v2/schedules", "/v2/keys",
	} {
		var answer json.RawMessage
		mustCall(t, c, http.MethodGet, path, nil, "", &answer)
		all = append(all, path+": "+string(answer))
	}
	return all
}

// served calls a function while a server runs.
func served(t *testing.T, store []string, do func(c *client)) {
	t.Helper()
	s := launch(t, append([]string{
		"serve", "--listen", "127.0.0.1:0", "--token", testToken, "--destinations", "any", "--log-level", "warn",
	}, store...)...)
	defer s.stop(t)
	do(newClient(s.url(t), testToken))
}
