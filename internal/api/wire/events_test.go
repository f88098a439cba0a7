package wire_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/store"
)

// thousand is how many entries a page of the log has.
var thousand = wire.Count{Default: 1000, Most: 1000}

// Contract 4.1, rules 1, 4 and 5, messages 2.10, U-66, decisions 3 and 21.
func TestEvents(t *testing.T) {
	a, b := messageID(1), messageID(2)
	const ms = 1_700_000_000_000
	first, last := posthaste.FirstPosition(time.UnixMilli(ms)), posthaste.LastPosition(time.UnixMilli(ms))
	everything := store.EventQuery{High: posthaste.MaxPosition, Limit: 1000}
	with := func(change func(*store.EventQuery)) store.EventQuery {
		query := everything
		change(&query)
		return query
	}
	filtered := func(filter posthaste.Filter) store.EventQuery {
		return with(func(q *store.EventQuery) { q.Filter = filter })
	}
	tests := []struct {
		name   string
		params string
		want   store.EventQuery
	}{
		{"nothing given", "", everything},
		{"empty values", "cursor=&state=&url=&count=&order=&fromDate=&toDate=&messageId=", everything},
		{"without effect", "api=llm", everything},

		{"count", "count=7", with(func(q *store.EventQuery) { q.Limit = 7 })},
		{"count at the maximum", "count=1000", everything},
		{"count over the maximum", "count=1001", everything},
		{"count over all integers", "count=99999999999999999999999", everything},
		{"latest first", "order=latestFirst", everything},
		{"earliest first", "order=earliestFirst", with(func(q *store.EventQuery) { q.OldestFirst = true })},
		{"some of each body", "trimBody=10", everything},
		{"no bodies", "trimBody=-1", with(func(q *store.EventQuery) { q.Bare = true })},
		{"nothing of each body", "trimBody=0", with(func(q *store.EventQuery) { q.Bare = true })},
		{"from a date", fmt.Sprint("fromDate=", ms), with(func(q *store.EventQuery) { q.Low = first })},
		{"to a date", fmt.Sprint("toDate=", ms), with(func(q *store.EventQuery) { q.High = last })},
		{"one millisecond", fmt.Sprintf("fromDate=%d&toDate=%d", ms, ms),
			with(func(q *store.EventQuery) { q.Low, q.High = first, last })},
		{"a date beyond all positions", "toDate=9000000000000000000", everything},

		{"time as cursor, latest first", fmt.Sprint("cursor=", ms), with(func(q *store.EventQuery) { q.High = last })},
		{"time as cursor, earliest first", fmt.Sprint("order=earliestFirst&cursor=", ms),
			with(func(q *store.EventQuery) { q.OldestFirst, q.Low = true, first })},
		{"cursor before toDate", fmt.Sprintf("cursor=%d&toDate=%d", ms, ms+5),
			with(func(q *store.EventQuery) { q.High = last })},
		{"cursor after toDate", fmt.Sprintf("cursor=%d&toDate=%d", ms+5, ms),
			with(func(q *store.EventQuery) { q.High = last })},
		{"cursor before fromDate, earliest first", fmt.Sprintf("order=earliestFirst&cursor=%d&fromDate=%d", ms-5, ms),
			with(func(q *store.EventQuery) { q.OldestFirst, q.Low = true, first })},

		{"message id", "messageId=" + a.String(), filtered(posthaste.Filter{MessageIDs: []posthaste.MessageID{a}})},
		{"message ids repeated", "messageIds=" + a.String() + "&messageIds=" + b.String(),
			filtered(posthaste.Filter{MessageIDs: []posthaste.MessageID{a, b}})},
		{"message ids with commas", "messageIds=" + a.String() + "," + b.String(),
			filtered(posthaste.Filter{MessageIDs: []posthaste.MessageID{a, b}})},
		{"message id among others", "messageId=" + b.String() + "&messageIds=" + a.String() + "," + b.String(),
			filtered(posthaste.Filter{MessageIDs: []posthaste.MessageID{b}})},
		{"message ids that are none", "messageId=msg_unknown",
			filtered(posthaste.Filter{MessageIDs: []posthaste.MessageID{{}}})},
		{"two filters of ids without a common one", "messageId=" + a.String() + "&messageIds=" + b.String(),
			filtered(posthaste.Filter{MessageIDs: []posthaste.MessageID{{}}})},
		{"no id in the first of two filters", "messageId=nonsense&messageIds=" + b.String(),
			filtered(posthaste.Filter{MessageIDs: []posthaste.MessageID{{}}})},
		{"message id beside a text that is none", "messageIds=msg_1," + a.String(),
			filtered(posthaste.Filter{MessageIDs: []posthaste.MessageID{a}})},

		{"state", "state=ERROR", filtered(posthaste.Filter{States: []posthaste.State{posthaste.StateError}})},
		{"state in lower case", "state=created", filtered(posthaste.Filter{States: []posthaste.State{posthaste.StateCreated}})},
		{"both spellings of cancelled", "state=canceled",
			filtered(posthaste.Filter{States: []posthaste.State{posthaste.StateCancelled}})},
		{"several states", "state=FAILED,%20Delivered&state=CANCELLED", filtered(posthaste.Filter{
			States: []posthaste.State{posthaste.StateFailed, posthaste.StateDelivered, posthaste.StateCancelled}})},
		{"in progress", "state=In_Progress", filtered(posthaste.Filter{
			States: []posthaste.State{posthaste.StateActive, posthaste.StateRetry, posthaste.StateError}})},

		{"url", "url=https://example.com/a?b=c", filtered(posthaste.Filter{URLs: []string{"https://example.com/a?b=c"}})},
		{"url with a comma", "url=https://example.com/a,b",
			filtered(posthaste.Filter{URLs: []string{"https://example.com/a", "b", "https://example.com/a,b"}})},
		{"topic", "topicName=orders", filtered(posthaste.Filter{URLGroups: []string{"orders"}})},
		{"schedule", "scheduleId=scd_1", filtered(posthaste.Filter{ScheduleIDs: []string{"scd_1"}})},
		{"queue", "queueName=q", filtered(posthaste.Filter{Queues: []string{"q"}})},
		{"labels repeated", "label=x&label=y&label=x", filtered(posthaste.Filter{Labels: []string{"x", "y"}})},
		{"host", "host=Example.com", filtered(posthaste.Filter{Hosts: []string{"Example.com"}})},
		{"path", "path=/a/b", filtered(posthaste.Filter{Paths: []string{"/a/b"}})},
		{"caller under both names", "callerIp=10.0.0.1&callerIP=10.0.0.2",
			filtered(posthaste.Filter{CallerIPs: []string{"10.0.0.1", "10.0.0.2"}})},
		{"exact values", "flowControlKey[]=a,b&flowControlKey[]=c", filtered(posthaste.Filter{FlowKeys: []string{"a,b", "c"}})},
		{"statuses", "responseStatus=404,0,404", filtered(posthaste.Filter{Statuses: []int{0, 404}})},
		{"a class", "responseStatus=5xx", filtered(posthaste.Filter{Statuses: hundred(500)})},
		{"a class and more", "responseStatus=503,200,5XX", filtered(posthaste.Filter{Statuses: append([]int{200}, hundred(500)...)})},
		{"methods", "method=get&method=POST", filtered(posthaste.Filter{Methods: []string{"GET", "POST"}})},
		{"flow key", "flowControlKey=k%201", filtered(posthaste.Filter{FlowKeys: []string{"k 1"}})},
		{"filters together", "queueName=q&label=x", filtered(posthaste.Filter{Queues: []string{"q"}, Labels: []string{"x"}})},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := wire.Events(parse(t, test.params), thousand)
			if err != nil {
				t.Fatalf("Events(%s): %v", test.params, err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Events(%s) differs (-want +got):\n%s", test.params, diff)
			}
		})
	}
}

// unknownEvent is the sentence about a parameter that the log does not have.
func unknownEvent(name string) string {
	return fmt.Sprintf("parameter %q is unknown: messageId, messageIds, state, url, topicName, urlGroup, scheduleId, queueName, responseStatus, method, label, host, path, "+
		"callerIp, callerIP, flowControlKey, fromDate, toDate, count, cursor, order, trimBody are accepted", name)
}

// Contract, U-71 and decisions 5 and 16.
func TestEventsErrors(t *testing.T) {
	tests := []struct{ name, params, want string }{
		{"count zero", "count=0", `count "0" is not a whole number of at least 1`},
		{"count negative", "count=-1", `count "-1" is not a whole number of at least 1`},
		{"count no number", "count=many", `count "many" is not a whole number of at least 1`},
		{"count fraction", "count=1.5", `count "1.5" is not a whole number of at least 1`},
		{"count twice", "count=1&count=2", `count is given 2 times, it can have one value`},
		{"order unknown", "order=random", `order "random" is not earliestFirst or latestFirst`},
		{"order twice", "order=latestFirst&order=latestFirst", `order is given 2 times, it can have one value`},
		{"from no date", "fromDate=yesterday", `fromDate "yesterday" is not a Unix time in milliseconds`},
		{"from negative", "fromDate=-1", `fromDate "-1" is not a Unix time in milliseconds`},
		{"to no date", "toDate=2024-01-01", `toDate "2024-01-01" is not a Unix time in milliseconds`},
		{"to too large", "toDate=99999999999999999999", `toDate "99999999999999999999" is not a Unix time in milliseconds`},
		{"to twice", "toDate=1&toDate=2", `toDate is given 2 times, it can have one value`},
		{"cursor no cursor", "cursor=!", `cursor "!" is not the cursor of an earlier answer or a Unix time in milliseconds`},
		{"cursor without position", "cursor=p", `cursor "p" is not the cursor of an earlier answer or a Unix time in milliseconds`},
		{"cursor not as we write it", "cursor=p0A", `cursor "p0A" is not the cursor of an earlier answer or a Unix time in milliseconds`},
		{"cursor negative", "cursor=-5", `cursor "-5" is not the cursor of an earlier answer or a Unix time in milliseconds`},
		{"cursor twice", "cursor=1&cursor=2", `cursor is given 2 times, it can have one value`},
		{"state unknown", "state=DONE", `state "DONE" is not one of CREATED, ACTIVE, RETRY, ERROR, DELIVERED, FAILED, CANCEL_REQUESTED, CANCELLED, IN_PROGRESS`},
		{"state unknown in a list", "state=ERROR,DONE", `state "DONE" is not one of CREATED, ACTIVE, RETRY, ERROR, DELIVERED, FAILED, CANCEL_REQUESTED, CANCELLED, IN_PROGRESS`},
		{"a date of two in the wrong place", "fromDate=1&toDate=x", `toDate "x" is not a Unix time in milliseconds`},
		{"from twice", "fromDate=1&fromDate=2", `fromDate is given 2 times, it can have one value`},
		{"a filter of others", "dlqIds=1", unknownEvent("dlqIds")},
		{"a filter that is misspelt", "lable=x", unknownEvent("lable")},
		{"a grouping", "groupBy=workflowRunId", unknownEvent("groupBy")},
		{"a control", "Upstash-Label=x", unknownEvent("Upstash-Label")},
		{"a name of another kind", "count[]=1", unknownEvent("count[]")},
		{"error beside a filter that nothing passes", "messageId=msg_unknown&count=x", `count "x" is not a whole number of at least 1`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := wire.Events(parse(t, test.params), thousand)
			checkRefused(t, err, test.want)
		})
	}
}

// hundred returns the statuses of a class.
func hundred(from int) (all []int) {
	for n := range 100 {
		all = append(all, from+n)
	}
	return all
}

func TestBadStatusesAndMethods(t *testing.T) {
	for query, want := range map[string]string{
		"responseStatus=0xx": `responseStatus "0xx" is not an HTTP status, a class such as 5xx, or 0 for no response`,
		"responseStatus=xx":  `responseStatus "xx" is not an HTTP status`,
		"method=G%20T":       `method "G T" is not an HTTP method, such as GET or POST`,
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := wire.Events(values, thousand); posthaste.ErrorCode(err) != posthaste.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", query, err, want)
		}
	}
}
