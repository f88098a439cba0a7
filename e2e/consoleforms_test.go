package e2e

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// schedulesSaved are settings of schedules that a form could lose or add to.
var schedulesSaved = []struct {
	name, destination string // behind the sink's URL
	headers           map[string]string
	body              string
}{
	{"parameters with names of the server's own", "/ok?upstash-method=PUT&x=1#f", nil, ""},
	{"a path that clients would shorten", "/ok//b/../c", nil, ""},
	{"escapes", "/ok/a%2Fb%20c/{d}?e=%26", nil, ""},
	{"a body without a type", "/ok", nil, `{"a": 1}`},
	{"headers, one of which is empty", "/ok", map[string]string{"Content-Type": "text/csv", "Upstash-Forward-X-Empty": "", "Upstash-Forward-X-Tenant": "7"}, "a,b\r\n"},
}

// testScheduleSaved saves schedules in which nothing was changed: they stay what they were.
func testScheduleSaved(t *testing.T, b *browser, c *client, s *sink) {
	for _, test := range schedulesSaved {
		t.Run(test.name, func(t *testing.T) {
			headers := map[string]string{"Upstash-Cron": "0 6 * * *", "Upstash-Schedule-Id": "kept"}
			for name, value := range test.headers {
				headers[name] = value
			}
			if err := c.call(t.Context(), http.MethodPost, "/v2/schedules/"+url.QueryEscape(s.url+test.destination), headers, test.body, nil); err != nil {
				t.Fatal(err)
			}
			want := scheduleAsMade(t, c)
			page := b.open(t, desktop, c.console("/schedules"))
			page.fill("Filter text", "kept")
			page.until(`document.querySelectorAll("tbody tr").length === 1`, "see it alone")
			page.press("Edit")
			page.press("Save")
			page.until(`document.querySelector("dialog") === null`, "see that it is saved")
			if diff := cmp.Diff(want, scheduleAsMade(t, c)); diff != "" {
				t.Errorf("it has changed (-was +is):\n%s", diff)
			}
		})
	}
}

// scheduleAsMade returns what the schedule "kept" was made with.
func scheduleAsMade(t *testing.T, c *client) map[string]any {
	t.Helper()
	var schedule map[string]any
	if err := c.call(t.Context(), http.MethodGet, "/v2/schedules/kept", nil, "", &schedule); err != nil {
		t.Fatal(err)
	}
	delete(schedule, "createdAt")
	delete(schedule, "nextScheduleTime")
	return schedule
}

// testQueueInUse makes a queue under a name that another one has, which stays as it is, and
// under one that nothing can be asked for by.
func testQueueInUse(t *testing.T, b *browser, c *client) {
	if err := c.putQueue(t.Context(), "taken", 7); err != nil {
		t.Fatal(err)
	}
	page := b.open(t, desktop, c.console("/queues"))
	page.press("New queue")
	page.fill("Name", "taken")
	page.press("Save")
	page.sees(`There is a queue "taken" already, with parallelism 7`)
	page.inspect("queue-in-use")
	page.fill("Name", "..")
	page.press("Save")
	page.sees(`queueName ".." is invalid`)
	var queue struct{ Parallelism int }
	if err := c.call(t.Context(), http.MethodGet, "/v2/queues/taken", nil, "", &queue); err != nil || queue.Parallelism != 7 {
		t.Errorf("the queue that was there has parallelism %d, %v, want 7", queue.Parallelism, err)
	}
}
