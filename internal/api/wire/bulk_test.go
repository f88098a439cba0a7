package wire_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/store"
)

const ms = 1_700_000_000_000

var (
	at          = time.UnixMilli(ms)
	first, last = posthaste.FirstPosition(at), posthaste.LastPosition(at)
)

// Contract, messages 2.5.
func TestLive(t *testing.T) {
	filtered := func(f posthaste.Filter) store.LiveQuery { return store.LiveQuery{Filter: f} }
	tests := []struct {
		name   string
		params string
		want   store.LiveQuery
	}{
		{"everything", "", store.LiveQuery{}},
		{"parameters without effect", "count=5&async=true&api=x&order=y&cursor=", store.LiveQuery{}},
		{"message ids", "messageIds=" + messageID(1).String(), filtered(posthaste.Filter{MessageIDs: []posthaste.MessageID{messageID(1)}})},
		{"url", "url=https://a,b", filtered(posthaste.Filter{URLs: []string{"https://a", "b", "https://a,b"}})},
		{"group", "topicName=g", filtered(posthaste.Filter{URLGroups: []string{"g"}})},
		{"schedule", "scheduleId=s", filtered(posthaste.Filter{ScheduleIDs: []string{"s"}})},
		{"queue", "queueName=q", filtered(posthaste.Filter{Queues: []string{"q"}})},
		{"labels", "label=a&label=b", filtered(posthaste.Filter{Labels: []string{"a", "b"}})},
		{"host", "host=h", filtered(posthaste.Filter{Hosts: []string{"h"}})},
		{"path", "path=/p", filtered(posthaste.Filter{Paths: []string{"/p"}})},
		{"caller", "callerIp=1&callerIP=2", filtered(posthaste.Filter{CallerIPs: []string{"1", "2"}})},
		{"flow key", "flowControlKey=k", filtered(posthaste.Filter{FlowKeys: []string{"k"}})},
		{"exact values", "flowControlKey[]=eu,prod&label[]=+a&label=b,c", filtered(posthaste.Filter{FlowKeys: []string{"eu,prod"}, Labels: []string{"b", "c", "b,c", " a"}})},
		{"exact ids", "messageIds[]=" + messageID(1).String(), filtered(posthaste.Filter{MessageIDs: []posthaste.MessageID{messageID(1)}})},
		{"dates", fmt.Sprintf("fromDate=%d&toDate=%d", ms, ms+1),
			store.LiveQuery{CreatedFrom: at, CreatedUntil: at.Add(time.Millisecond)}},
		{"a date before all messages", "toDate=0", store.LiveQuery{CreatedUntil: time.UnixMilli(0)}},
		{"the first date of all", "fromDate=0", store.LiveQuery{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := live(parse(t, test.params))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Live(%s) differs (-want +got):\n%s", test.params, diff)
			}
		})
	}
}

func TestLiveErrors(t *testing.T) {
	const names = "messageId, messageIds, url, topicName, urlGroup, scheduleId, queueName, label, host, path, " +
		"callerIp, callerIP, flowControlKey, fromDate, toDate, count, async"
	tests := []struct{ name, params, want string }{
		{"unknown", "labeel=x", `parameter "labeel" is unknown: ` + names + ` are accepted`},
		{"a filter of logs alone", "state=ERROR", `parameter "state" is unknown: ` + names + ` are accepted`},
		{"a name in another letter case", "Label=x", `parameter "Label" is unknown: ` + names + ` are accepted`},
		{"filter without value", "label=", `label has no value: give one, or leave it out to select by other filters or everything`},
		{"ids without value", "messageIds=,%20", `messageIds has no value: give one, or leave it out to select by other filters or everything`},
		{"date without value", "fromDate=", `fromDate has no value: give one, or leave it out to select by other filters or everything`},
		{"from", "fromDate=x", `fromDate "x" is not a Unix time in milliseconds`},
		{"to", "toDate=x", `toDate "x" is not a Unix time in milliseconds`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := live(parse(t, test.params))
			checkRefused(t, err, test.want)
		})
	}
}

var (
	letter1 = posthaste.DeadLetterID(first) + 1
	letter2 = posthaste.DeadLetterID(first) + 2
)

// deadLetterFilters are what both kinds of calls on the DLQ understand.
var deadLetterFilters = []struct {
	name   string
	params string
	want   posthaste.Filter
}{
	{"everything", "", posthaste.Filter{}},
	{"parameters without effect", "count=5&api=x&source=message", posthaste.Filter{}},
	{"ids", "dlqIds=" + letter1.String() + "," + letter2.String(), posthaste.Filter{DeadLetterIDs: []posthaste.DeadLetterID{letter1, letter2}}},
	{"an id beside a text that is none", "dlqIds=x&dlqIds=" + letter1.String(), posthaste.Filter{DeadLetterIDs: []posthaste.DeadLetterID{letter1}}},
	{"texts that are no ids", "dlqIds=x", posthaste.Filter{DeadLetterIDs: []posthaste.DeadLetterID{0}}},
	{"message", "messageId=" + messageID(1).String(), posthaste.Filter{MessageIDs: []posthaste.MessageID{messageID(1)}}},
	{"url", "url=u", posthaste.Filter{URLs: []string{"u"}}},
	{"group", "topicName=g", posthaste.Filter{URLGroups: []string{"g"}}},
	{"group as @upstash/qstash before 2.9 names it", "urlGroup=g&topicName=g", posthaste.Filter{URLGroups: []string{"g"}}},
	{"schedule", "scheduleId=s", posthaste.Filter{ScheduleIDs: []string{"s"}}},
	{"queue", "queueName=q", posthaste.Filter{Queues: []string{"q"}}},
	{"labels", "label=a,b&label=c", posthaste.Filter{Labels: []string{"a", "b", "a,b", "c"}}},
	{"caller", "callerIP=2", posthaste.Filter{CallerIPs: []string{"2"}}},
	{"flow key", "flowControlKey=k", posthaste.Filter{FlowKeys: []string{"k"}}},
	{"statuses", "responseStatus=500,0&responseStatus=404", posthaste.Filter{Statuses: []int{500, 0, 404}}},
}

// Contract, messages 2.9.
func TestDeadLetters(t *testing.T) {
	for _, test := range deadLetterFilters {
		t.Run(test.name, func(t *testing.T) {
			got, err := deadLetters(parse(t, test.params))
			if err != nil {
				t.Fatal(err)
			}
			want := store.DeadLetterQuery{Filter: test.want, High: posthaste.MaxPosition}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("DeadLetters(%s) differs (-want +got):\n%s", test.params, diff)
			}
		})
		t.Run("sweep of "+test.name, func(t *testing.T) {
			got, begun, err := sweepLetters(parse(t, test.params+"&async=true"))
			if err != nil || begun {
				t.Fatalf("begun %v, error %v", begun, err)
			}
			want := store.DeadLetterQuery{Filter: test.want, High: posthaste.MaxPosition, OldestFirst: true}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Sweep(%s) differs (-want +got):\n%s", test.params, diff)
			}
		})
	}
}

func TestDeadLetterRange(t *testing.T) {
	everything := store.DeadLetterQuery{High: posthaste.MaxPosition}
	tests := []struct {
		name      string
		params    string
		low, high posthaste.Position
		oldest    bool
	}{
		{"without values", "cursor=&order=&fromDate=&toDate=", 0, everything.High, false},
		{"dates", fmt.Sprintf("fromDate=%d&toDate=%d", ms, ms), first, last, false},
		{"cursor", "cursor=" + wire.Cursor(first), 0, first, false},
		{"cursor, oldest first", "order=earliestFirst&cursor=" + wire.Cursor(first), first, everything.High, true},
		{"a time as cursor", fmt.Sprint("cursor=", ms), 0, last, false},
		{"a time as cursor, oldest first", fmt.Sprint("order=earliestFirst&cursor=", ms), first, everything.High, true},
		{"cursor outside of the dates", fmt.Sprintf("toDate=%d&cursor=%s", ms, wire.Cursor(last+5)), 0, last, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := deadLetters(parse(t, test.params))
			if err != nil {
				t.Fatal(err)
			}
			want := store.DeadLetterQuery{Low: test.low, High: test.high, OldestFirst: test.oldest}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("DeadLetters(%s) differs (-want +got):\n%s", test.params, diff)
			}
		})
	}
}

// TestSweepRange checks that a sweep, of messages and of runs alike, goes on where it was and
// ends where it ended first (contract, decision 8).
func TestSweepRange(t *testing.T) {
	sweep := wire.SweepCursor(first, last)
	tests := []struct {
		name      string
		params    string
		low, high posthaste.Position
		begun     bool
	}{
		{"begins", "cursor=", 0, posthaste.MaxPosition, false},
		{"begins at a time", fmt.Sprint("cursor=", ms), first, posthaste.MaxPosition, false},
		{"begins within dates", fmt.Sprintf("fromDate=%d&toDate=%d", ms, ms), first, last, false},
		{"begins at a position", "cursor=" + wire.Cursor(first), first, posthaste.MaxPosition, false},
		{"goes on", "cursor=" + sweep, first, last, true},
		{"goes on within dates", fmt.Sprintf("cursor=%s&fromDate=%d&toDate=%d", sweep, ms+1, ms-1), last + 1, first - 1, true},
		{"goes on, latest first", "order=latestFirst&cursor=" + sweep, 0, first, true},
	}
	for _, test := range tests {
		t.Run("messages: "+test.name, func(t *testing.T) {
			got, begun, err := sweepLetters(parse(t, test.params))
			if err != nil || begun != test.begun || got.Low != test.low || got.High != test.high {
				t.Errorf("Sweep(%s) = %+v, %v, %v", test.params, got, begun, err)
			}
		})
		t.Run("runs: "+test.name, func(t *testing.T) {
			got, begun, err := sweepRuns(parse(t, test.params))
			if err != nil || begun != test.begun || got.Low != test.low || got.High != test.high {
				t.Errorf("FailedRuns(%s) = %+v, %v, %v", test.params, got, begun, err)
			}
		})
	}
}

func TestDeadLetterErrors(t *testing.T) {
	const filters = "dlqIds, messageId, url, topicName, urlGroup, scheduleId, queueName, responseStatus, label, " +
		"callerIp, callerIP, flowControlKey, fromDate, toDate, count, cursor, order, source, api"
	const cursors = "the cursor of an earlier answer or a Unix time in milliseconds"
	tests := []struct{ name, params, want string }{
		{"unknown", "labeel=x", `parameter "labeel" is unknown: ` + filters + `%s are accepted`},
		{"host", "host=x", `parameter "host" is unknown: ` + filters + `%s are accepted`},
		{"order", "order=x", `order "x" is not earliestFirst or latestFirst`},
		{"dates", "fromDate=x", `fromDate "x" is not a Unix time in milliseconds`},
		{"status", "responseStatus=ok", `responseStatus "ok" is not an HTTP status, or 0 for no response`},
		{"status of four digits", "responseStatus=1000", `responseStatus "1000" is not an HTTP status, or 0 for no response`},
		{"source", "source=x", `source "x" is not message or workflow`},
		{"source of runs", "source=workflow", `source "workflow" cannot be given here: failed runs are deleted, restarted and resumed at /v2/workflows/dlq`},
		{"source twice", "source=message&source=workflow", `source is given 2 times, it can have one value`},
		{"cursor", "cursor=x", `cursor "x" is not ` + cursors},
		{"cursor twice", "cursor=1&cursor=1", `cursor is given 2 times, it can have one value`},
		{"half a cursor of a sweep", "cursor=p1-", `cursor "p1-" is not ` + cursors},
		{"the other half", "cursor=-p1", `cursor "-p1" is not ` + cursors},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := deadLetters(parse(t, test.params))
			checkRefused(t, err, sentence(test.want, ", trimBody"))
		})
		t.Run("sweep: "+test.name, func(t *testing.T) {
			_, _, err := sweepLetters(parse(t, test.params))
			checkRefused(t, err, sentence(test.want, ", async"))
		})
	}
	t.Run("a list has no sweep", func(t *testing.T) {
		_, err := deadLetters(parse(t, "cursor=p1-p2"))
		checkRefused(t, err, `cursor "p1-p2" is not `+cursors)
	})
	t.Run("a list is not in the background", func(t *testing.T) {
		_, err := deadLetters(parse(t, "async=true"))
		checkRefused(t, err, `parameter "async" is unknown: `+filters+`, trimBody are accepted`)
	})
	t.Run("a sweep takes no filter without a value", func(t *testing.T) {
		_, _, err := sweepLetters(parse(t, "dlqIds=&label=x"))
		checkRefused(t, err, "dlqIds has no value: give one, or leave it out to select by other filters or everything")
	})
}

// sentence puts the names that only some calls accept into a sentence.
func sentence(text, more string) string {
	if len(text) > 0 && text[len(text)-len("are accepted"):] == "are accepted" {
		return fmt.Sprintf(text, more)
	}
	return text
}
