package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestEndToEnd runs through all areas in one life of a server: what is asked for
// over HTTP is delivered, logged, retried and cancelled by a real engine on a
// real store.
func TestEndToEnd(t *testing.T) {
	inWorld(t, func(w *world) {
		w.publishToAGroup()
		w.enqueueInOrder()
		w.scheduleATick()
		w.retryDeadLetters()
		w.cancelInBulk()
		w.cancelInTheBackground()
		w.checkStats(w.checkLog())
	})
}

// do sends a request that has to succeed and decodes its answer.
func (w *world) do(method, path, body string, into any, header ...string) {
	w.Helper()
	r := newRequest(method, path, strings.NewReader(body))
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	response := do(w.handler, r)
	synctest.Wait()
	if response.Code/100 != 2 {
		w.Fatalf("%s %s: %d %s", method, path, response.Code, response.Body)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(response.Body.Bytes(), into); err != nil {
		w.Fatalf("%s %s: %v: %s", method, path, err, response.Body)
	}
}

// after lets time go by and checks what destinations got meanwhile.
func (w *world) after(d time.Duration, want ...string) {
	w.Helper()
	time.Sleep(d)
	synctest.Wait()
	got := w.destinations.take()
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got, cmp.Transformer("some", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
		w.Errorf("deliveries differ (-want +got):\n%s", diff)
	}
}

type receipt struct {
	MessageID string `json:"messageId"`
}

func (w *world) publishToAGroup() {
	w.do("POST", "/v2/topics/orders/endpoints", `{"endpoints":[{"url":"https://a.example/in"},{"name":"b","url":"https://b.example/in"}]}`, nil)
	w.do("PATCH", "/v2/topics/orders", `{"headers":{"Upstash-Forward-X-Group":"orders"}}`, nil)
	var receipts []receipt
	w.do("POST", "/v2/publish/orders", "order 1", &receipts)
	if len(receipts) != 2 {
		w.Fatalf("%d receipts for two endpoints", len(receipts))
	}
	w.after(time.Second,
		`POST https://a.example/in retried 0 X-Group: orders "order 1"`,
		`POST https://b.example/in retried 0 X-Group: orders "order 1"`)
}

func (w *world) enqueueInOrder() {
	w.do("POST", "/v2/queues", `{"queueName":"q","paused":true}`, nil)
	var items []string
	for i := range 3 {
		items = append(items, fmt.Sprintf(`{"destination":"https://a.example/slow","queue":"q","body":"%d"}`, i))
	}
	w.do("POST", "/v2/batch", "["+strings.Join(items, ",")+"]", nil)
	w.after(time.Hour)
	w.do("POST", "/v2/queues/q/resume", "", nil)
	time.Sleep(time.Second)
	for i := range 3 { // each takes an hour
		w.after(0, fmt.Sprintf(`POST https://a.example/slow retried 0 "%d"`, i))
		time.Sleep(time.Hour)
	}
	w.after(0)
	var queue struct{ Lag int }
	if w.do("GET", "/v2/queues/q", "", &queue); queue.Lag != 0 {
		w.Errorf("lag %d after all were delivered", queue.Lag)
	}
}

func (w *world) scheduleATick() {
	w.do("POST", "/v2/schedules/https://a.example/tick", "tock", nil, "Upstash-Cron: 30 * * * *", "Upstash-Schedule-Id: half")
	w.after(2*time.Hour,
		`POST https://a.example/tick retried 0 "tock"`,
		`POST https://a.example/tick retried 0 "tock"`)
	var schedule struct {
		LastScheduleStates map[string]string `json:"lastScheduleStates"`
	}
	w.do("GET", "/v2/schedules/half", "", &schedule)
	for id, state := range schedule.LastScheduleStates {
		if state != "SUCCESS" {
			w.Errorf("message %s of the last tick: %s", id, state)
		}
	}
	if len(schedule.LastScheduleStates) != 1 {
		w.Errorf("the last tick made %v", schedule.LastScheduleStates)
	}
	w.do("DELETE", "/v2/schedules/half", "", nil)
	w.after(2 * time.Hour)
}

func (w *world) retryDeadLetters() {
	const publish = "/v2/publish/https://a.example/fail/500"
	for i := range 3 {
		w.do("POST", publish, fmt.Sprint("letter ", i), nil, "Upstash-Retries: 0", "Upstash-Label: dead")
		w.after(time.Second, fmt.Sprintf(`POST https://a.example/fail/500 retried 0 "letter %d"`, i))
	}
	var page struct {
		Responses []receipt
		Cursor    string
	}
	cursor := ""
	for i := range 3 { // they fail again, and are not met again
		w.do("POST", "/v2/dlq/retry?label=dead&count=1"+cursor, "", &page, "Upstash-Method: PUT")
		w.after(time.Second, fmt.Sprintf(`PUT https://a.example/fail/500 retried 0 "letter %d"`, i))
		if len(page.Responses) != 1 || (page.Cursor == "") != (i == 2) {
			w.Fatalf("page %d: %+v", i, page)
		}
		cursor, page.Cursor = "&cursor="+url.QueryEscape(page.Cursor), ""
	}
	var deleted struct{ Deleted int }
	if w.do("DELETE", "/v2/dlq?label=dead", "", &deleted); deleted.Deleted != 3 {
		w.Errorf("deleted %d dead letters", deleted.Deleted)
	}
}

// delay publishes messages that wait for an hour.
func (w *world) delay(n int, label string) {
	item := fmt.Sprintf(`{"destination":"https://a.example/late","headers":{"Upstash-Delay":"1h","Upstash-Label":"%s"}}`, label)
	for range n {
		w.do("POST", "/v2/batch", "["+item+"]", nil)
	}
}

func (w *world) cancelInBulk() {
	w.delay(3, "cancelled")
	w.delay(1, "kept")
	var cancelled struct{ Cancelled int }
	if w.do("DELETE", "/v2/messages?label=cancelled&count=2", "", &cancelled); cancelled.Cancelled != 2 {
		w.Errorf("cancelled %d, want 2", cancelled.Cancelled)
	}
	if w.do("DELETE", "/v2/messages", `{"label":"cancelled"}`, &cancelled); cancelled.Cancelled != 1 {
		w.Errorf("cancelled %d, want 1", cancelled.Cancelled)
	}
	w.after(2*time.Hour, `POST https://a.example/late retried 0 ""`)
}

func (w *world) cancelInTheBackground() {
	w.delay(250, "many") // more than one step
	w.delay(1, "kept")
	var action struct {
		ActionID         string `json:"actionId"`
		State            string
		Total, Processed int
	}
	w.do("DELETE", "/v2/messages?label=many&async=true", "", &action)
	w.do("GET", "/v2/bulkActions/"+action.ActionID, "", &action)
	if action.State != "FINISHED" || action.Total != 250 || action.Processed != 250 {
		w.Errorf("the action is %+v", action)
	}
	w.after(2*time.Hour, `POST https://a.example/late retried 0 ""`)
}

// checkLog counts what happened, over all pages of the log.
func (w *world) checkLog() map[string]int {
	counts := map[string]int{}
	for path := "/v2/logs?count=300"; path != ""; {
		var page struct {
			Events []struct{ State string }
			Cursor string
		}
		w.do(http.MethodGet, path, "", &page)
		for _, event := range page.Events {
			counts[event.State]++
		}
		if path = ""; page.Cursor != "" {
			path = "/v2/logs?count=300&cursor=" + page.Cursor
		}
	}
	want := map[string]int{
		"CREATED": 268, "ACTIVE": 15, "DELIVERED": 9, "ERROR": 6, "FAILED": 6,
		"CANCEL_REQUESTED": 253, "CANCELLED": 253,
	}
	if diff := cmp.Diff(want, counts); diff != "" {
		w.Errorf("the log differs (-want +got):\n%s", diff)
	}
	return counts
}

// checkStats compares the counts of the log with its entries.
func (w *world) checkStats(counts map[string]int) {
	type summary struct {
		States, Statuses map[string]int
		Latency          *struct{ Count int }
	}
	var stats struct {
		Total   summary
		Buckets []struct {
			Time int64
			summary
		}
		Hosts, Paths []struct {
			Host, Path string
			summary
		}
	}
	w.do("GET", "/v2/logs/stats?bucket=hour", "", &stats)
	if diff := cmp.Diff(counts, stats.Total.States); diff != "" {
		w.Errorf("the counts differ from the log (-log +counts):\n%s", diff)
	}
	attempts := counts["DELIVERED"] + counts["ERROR"]
	if stats.Total.Latency == nil || stats.Total.Latency.Count != attempts || len(stats.Buckets) != 24 {
		w.Errorf("counted: %+v, want %d attempts", stats, attempts)
	}
	if first := stats.Paths[0]; first.States["ERROR"] == 0 || first.Path == "" || stats.Hosts[0].Host != first.Host {
		w.Errorf("the hosts %+v and paths %+v do not begin with one that fails", stats.Hosts, stats.Paths)
	}
	host := stats.Paths[0].Host
	stats.Total = summary{}
	w.do("GET", "/v2/logs/stats?state=created&host="+host+"&count=1", "", &stats)
	if got := stats.Total.States; len(got) != 1 || got["CREATED"] == 0 || len(stats.Hosts) != 1 {
		w.Errorf("counted of one state and host: %+v", stats)
	}
}
